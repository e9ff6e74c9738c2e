"""Whether training on batches costs score: ``graphshift reproduce batches``."""
