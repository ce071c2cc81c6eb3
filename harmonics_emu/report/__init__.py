"""One self-contained HTML page of a run or a comparison."""
