"""``graphshift reproduce``: runs the items and writes their tables, figures and pages."""
