"""The paper's motivating example (Section 3.1)."""
