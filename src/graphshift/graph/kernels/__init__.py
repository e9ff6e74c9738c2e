"""The few loops that torch does badly, each in C and in torch. What is called here chooses between the two itself.

The C files are compiled when graphshift is installed, by whatever C compiler is there. Where there is none, or with
``GRAPHSHIFT_NATIVE=0`` in the environment, or for tensors that C cannot take (other devices, 64 bits, gradients),
torch does the same, slower. Tests compare the two; ``graphshift bench`` measures them.

GAT's attention is in :mod:`graphshift.graph.kernels.attention`.
"""

from graphshift.graph.kernels.checks import Within
from graphshift.graph.kernels.graphs import CSR, draw, edit, flip, joined, scale, transpose
from graphshift.graph.kernels.native import available
from graphshift.graph.kernels.pairs import best, score, score_random
from graphshift.graph.kernels.policy import PolicyTable, policy_draw, policy_learn, policy_log_prob
