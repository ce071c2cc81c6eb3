"""Scenarios out of what others recorded: which jobs to take, what they send here, and the fabric they run on."""

from harmonics_emu.importing.importer import Imported, import_traces
from harmonics_emu.importing.options import ImportOptions

__all__ = ["ImportOptions", "Imported", "import_traces"]
