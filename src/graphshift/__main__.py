"""``python -m graphshift``."""

from graphshift.cli import main

main()
