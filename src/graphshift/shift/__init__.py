"""Two graphs, one of them new: what has moved, what a model will score there without labels, and watching over time."""
