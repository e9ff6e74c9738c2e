"""How much memory a fit will need, before it starts; what is available; what to change."""

from graphshift.fitting.memory.advice import advice, parse_size, show_size
from graphshift.fitting.memory.estimating import Estimate, data_bytes, estimate
from graphshift.fitting.memory.machine import available_bytes, give_back_freed, resident_bytes
