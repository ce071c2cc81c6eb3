"""From records to results: statistics, the run directory and its files, comparisons of policies, and their tables."""
