"""A user's own tables: read, prepared, split, and read again when the model is used."""
