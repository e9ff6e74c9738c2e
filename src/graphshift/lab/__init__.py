"""What we do with the library: the paper's experiments and theory, the leaderboard, the toy, the demo, the speed suite.

Only the command line imports it. ``reproduce`` uses ``leaderboard``, which uses ``paper``; the others stand alone.
"""
