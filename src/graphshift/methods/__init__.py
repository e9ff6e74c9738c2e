"""Methods: one file each, with hyper-parameters, objective, training step and estimator.

``METHODS`` has the estimator classes by name. A file that is added here is found; nothing else has to be told.
"""

from graphshift.estimators.base import METHODS, Estimator
from graphshift.estimators.gnn import GNNEstimator
from graphshift.methods.eerm import EERM, EERMMethod
from graphshift.methods.erm import ERM, ERMMethod
from graphshift.methods.grouped import Group, GroupedEstimator, GroupedMethod, PenalisedEstimator, PenalisedMethod
from graphshift.methods.risks import eerm_objective, variance
from graphshift.training.method import Method
