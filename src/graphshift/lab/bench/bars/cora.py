"""Cora as the paper trains it: K = 10, with validation at every epoch."""

from __future__ import annotations

from collections.abc import Callable

import torch

from graphshift.data.environment import Environment
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.workload import new_method, stepping
from graphshift.methods import Method

_BAR = 9.0
_VIEWS = 10
_ABSENT = "the files of cora are not there (--data-dir)"


def epoch_of(method: Method, train: Environment, val: Environment) -> Callable[[], float]:
    """A job for a clock: an epoch as ``training.train`` has it, a step and the validation score."""

    def epoch() -> float:
        method.step([train], 0.0)
        output = method.predict(val)
        assert bool(torch.isfinite(output).all())
        return val.score(output)

    return epoch


def run(bench: Bench) -> None:
    """Measures an epoch of EERM with ``reinforce`` beside one of ERM: the first ones, and after many."""
    for epochs in (0, bench.sizes.epochs):
        when = f"after {epochs} epochs" if epochs else "first epochs"
        id = f"cora-epoch-over-erm-{f'after-{epochs}' if epochs else 'early'}"
        what = f"Cora: epoch with validation, EERM (reinforce, K = {_VIEWS}) over ERM, {when}"
        if not bench.has_data("cora"):
            bench.measured(id, what, None, bar=_BAR, reason=_ABSENT)
            continue
        with bench.stage(when):
            bench.measured(id, what, _ratio(bench, epochs), bar=_BAR)


def _ratio(bench: Bench, epochs: int) -> float:
    data = bench.real_data("cora")
    train, val = data.train[0], data.val[0]
    edits = int(data.defaults["edits_per_node"])
    erm = new_method(train, "erm")
    eerm = new_method(train, "reinforce", views=_VIEWS, edits=edits)
    stepping(eerm, train, epochs)()
    plain, explored = bench.time(epoch_of(erm, train, val), epoch_of(eerm, train, val))
    bench.outcome.data[f"after_{epochs}"] = {"erm": plain, "eerm": explored}
    return explored / plain
