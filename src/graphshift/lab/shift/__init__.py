"""How well ``compare_graphs`` works: alarms where nothing moved, and planted shifts of one block at a time."""
