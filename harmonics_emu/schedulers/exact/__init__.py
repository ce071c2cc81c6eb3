"""What the best possible schedule of jobs on shared links is worth: exact search and lower bounds."""
