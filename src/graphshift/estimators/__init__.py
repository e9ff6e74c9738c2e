"""What all estimators share: fitting, prediction, saving, ensembles, adaptation."""

from graphshift.estimators.base import METHODS, Estimator
from graphshift.estimators.ensemble import Ensemble
from graphshift.estimators.gnn import GNNEstimator
from graphshift.estimators.predictor import Predictor
from graphshift.estimators.settings import make_estimator, recorded_estimator
