"""The command line: one file a command, found by name and imported only when asked for."""
