"""Experiment trackers as callbacks. One file each, which declares itself: ``@LOGGERS.register("name")``."""

from graphshift.training.loggers.base import LOGGERS, Logger, check_log, make_logger, opened_loggers
from graphshift.training.loggers.mlflow import MLflow
from graphshift.training.loggers.tensorboard import TensorBoard
from graphshift.training.loggers.wandb import WandB
