"""harmonics-emu: a testbed for scheduling the collectives of training jobs that share one cluster's network."""

__version__ = "0.1.0"
