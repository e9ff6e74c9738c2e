"""The leaderboard: tables and figures of every method on every dataset."""
