"""The structure of a graph, and the sparse products on it."""
