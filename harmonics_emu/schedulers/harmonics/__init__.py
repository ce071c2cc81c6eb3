"""The policy harmonics, in two tiers."""

from harmonics_emu.schedulers.harmonics.plan import policy

__all__ = ["policy"]
