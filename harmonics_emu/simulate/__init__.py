"""The fluid engine: the same fabric, jobs and policies as the emulator, as rates that change at events."""
