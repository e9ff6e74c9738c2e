"""Graphs that do not fit into memory: a folder of memory-mapped arrays, its nodes in the order of parts."""
