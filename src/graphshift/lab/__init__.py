"""What we do with the library: the paper, the toy, the demo, the speed suite, the leaderboard."""
