"""``python -m graphshift.cli``."""

from graphshift.cli import main

main()
