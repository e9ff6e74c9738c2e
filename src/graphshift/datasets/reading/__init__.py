"""Raw files into arrays: fetched, checked, cached, never executed. Datasets share these."""
