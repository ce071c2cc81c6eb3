"""What happened and why: packets, explanations of slow iterations, and what reports and timelines are drawn from."""
