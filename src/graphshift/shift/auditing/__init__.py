"""What a fitted model leans on: edges, columns, pairs of classes; and the smallest edits that flip its predictions."""
