"""MLflow: a run of an experiment in a tracking store, a server or a SQLite file."""

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphshift.training.loggers.base import LOGGERS, Logger

_LONGEST = 6000  # characters of a parameter
#: MLflow tries seven times, for about four minutes, before it says that a server does not answer.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
_MOST_METRICS, _MOST_PARAMS = 1000, 100  # of one request


@LOGGERS.register("mlflow")
class MLflow(Logger):
    """Settings as parameters, the numbers of epochs and scores as metrics, with the epoch as the step.

    Args:
        place: the tracking URI, as ``sqlite:///mlflow.db`` or ``http://127.0.0.1:5000``. None takes MLflow's own:
            ``MLFLOW_TRACKING_URI``, or its default store in the working folder.
        group: the experiment, unless ``MLFLOW_EXPERIMENT_NAME`` names another.
        name: of the run.
    """

    package, place_is = "mlflow", "a tracking URI, as sqlite:///mlflow.db"

    def open(self, settings: Mapping[str, Any]) -> None:
        """Makes the run, and the experiment if need be."""
        from mlflow.entities import Param

        client, experiment = self._client()
        self._run = client.create_run(experiment, run_name=self.name).info.run_id
        params = [Param(name, str(value)[:_LONGEST]) for name, value in settings.items()]
        for some in _parts(params, _MOST_PARAMS):
            client.log_batch(self._run, params=some)
        self._api = client

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """All numbers of these epochs in as few requests as possible."""
        self._log([(name, value, row["epoch"]) for row in rows for name, value in row.items() if name != "epoch"])

    def write_scores(self, scores: Mapping[str, float]) -> None:
        """At step 0."""
        self._log([(name, value, 0) for name, value in scores.items()])

    def end(self, *, finished: bool) -> None:
        """Marks the run as finished or as failed."""
        self._api.set_terminated(self._run, "FINISHED" if finished else "FAILED")

    def check(self) -> None:
        """Makes the experiment, so that workers do not make it at the same time."""
        self._client()

    def _client(self) -> tuple[Any, str]:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        logging.getLogger("mlflow").setLevel(logging.WARNING)  # that it makes its tables is no news
        for name, value in _PATIENCE.items():
            os.environ.setdefault(name, value)
        client = MlflowClient(self.place)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", self.group)
        if (found := client.get_experiment_by_name(name)) is not None:
            return client, found.experiment_id
        try:
            return client, client.create_experiment(name)
        except MlflowException:  # somebody else has made it meanwhile
            if (found := client.get_experiment_by_name(name)) is None:
                raise
            return client, found.experiment_id

    def _log(self, points: Sequence[tuple[str, float, int]]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, float(value), now, step) for name, value, step in points]
        for some in _parts(metrics, _MOST_METRICS):
            self._api.log_batch(self._run, metrics=some)


def _parts(items: Sequence[Any], most: int) -> Iterator[list[Any]]:
    for begin in range(0, len(items), most):
        yield list(items[begin : begin + most])
