"""The project's own figures: one file a benchmark, each with a click command in `command`."""
