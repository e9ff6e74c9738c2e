"""A small HTTP service around a saved model: graphs in, predictions out."""
