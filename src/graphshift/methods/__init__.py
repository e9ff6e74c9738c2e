"""Methods turn environments into training steps. One file each; a new one is added to ``METHODS`` in ``models``."""

from graphshift.methods.base import Method
from graphshift.methods.eerm import EERMMethod
from graphshift.methods.erm import ERMMethod

__all__ = ["EERMMethod", "ERMMethod", "Method"]
