"""What has moved between two graphs: block by block, tested over communities."""
