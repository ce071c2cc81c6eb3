"""Capture files to columns, flows, bursts and series, in memory that does not grow with the file."""
