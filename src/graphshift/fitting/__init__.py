"""One fit into a folder: memory, resume, ensembles."""
