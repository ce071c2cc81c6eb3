"""Jobs: model catalogue, placement, what a collective puts on the links, traces, and the programs that ranks run."""
