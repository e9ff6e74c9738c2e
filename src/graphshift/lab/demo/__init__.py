"""``graphshift demo``: ERM and EERM on the built-in data."""
