"""A run while it goes on, or after: what its directory tells, as a page, as metrics and in a terminal."""
