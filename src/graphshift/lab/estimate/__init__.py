"""How right is ``estimate_score``? Every estimate on every test of the leaderboard's datasets, and what was learned."""
