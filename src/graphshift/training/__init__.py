"""The training loop and what it needs to know of a method."""
