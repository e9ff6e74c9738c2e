"""One file for each group of bars; ``run`` measures them."""
