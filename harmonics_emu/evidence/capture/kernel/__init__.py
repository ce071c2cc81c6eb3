"""Compiled loops over packets. They know layouts and numbers only; files, names and units are left to their callers."""
