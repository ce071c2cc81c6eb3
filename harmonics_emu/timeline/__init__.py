"""A run as a trace for the Perfetto viewer."""
