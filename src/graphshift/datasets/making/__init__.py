"""Random graphs and random GNNs, for datasets that are made."""
