"""The in-domain limit is an honest cross-validation on each test graph."""

from __future__ import annotations

from statistics import fmean

import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.studies.job_runner import attempt
from graphshift.studies.jobs import Schedule
from graphshift.studies.limit import FOLDS, folds_of
from graphshift.studies.resolved import load_data, resolve
from small import environments
from tiny_studies import ERM, OPTIONS, TINY, plan


def test_folds_part_the_counted_nodes_and_spread_the_classes() -> None:
    environment = load_data("planted", OPTIONS, None).tests[0]
    environment = environment.replace(mask=torch.arange(60) % 6 != 0)
    folds = folds_of(environment, 3)
    assert len(folds) == FOLDS
    assert torch.equal(sum(test.mask.int() for _, test in folds), environment.mask.int())  # each node once
    shares = []
    for train, test in folds:
        assert not bool((train.mask & test.mask).any())
        assert torch.equal(train.mask | test.mask, environment.mask)
        assert train.graph is environment.graph
        assert test.labels.numel() == 10
        shares.append(torch.bincount(test.labels, minlength=4))
    assert int((torch.stack(shares).max(dim=0).values - torch.stack(shares).min(dim=0).values).max()) <= 1
    again, other = folds_of(environment, 3), folds_of(environment, 4)
    assert all(torch.equal(a[1].mask, b[1].mask) for a, b in zip(folds, again, strict=True))
    assert not all(torch.equal(a[1].mask, b[1].mask) for a, b in zip(folds, other, strict=True))


def test_the_limit_is_the_mean_over_folds_of_erm_on_the_other_folds() -> None:
    study = plan(arms=[ERM], trials=0, in_domain=True)
    data = load_data("planted", OPTIONS, None)
    job = next(job for job in Schedule(resolve(study, data)).jobs({}) if job.environment == "T2")
    record = attempt(job, data)
    expected = []
    for train, test in folds_of(data.tests[1], 0):
        model = gs.ERM(selection="id_val", **TINY).fit(train)
        expected.append(model.score(test))
    assert record.folds == expected
    assert len(set(expected)) > 1
    assert record.selections["in_domain"].tests == {"T2": pytest.approx(fmean(expected))}
    assert (record.kind, record.environment, record.status) == ("limit", "T2", "ok")


def test_values_are_folded_too() -> None:
    data = environments(1, 24)[0].data
    data.y = data.x[:, 0].clone()
    folds = folds_of(Environment("values", data), 0)
    assert [test.labels.numel() for _, test in folds] == [4, 4, 4, 3, 3]


def test_too_few_nodes_are_told() -> None:
    environment = environments(1, 24)[0]
    few = environment.replace(mask=torch.arange(24) < 9)
    with pytest.raises(GraphshiftError, match="environment 'e0' has 9 counted nodes, too few for 5 folds"):
        folds_of(few, 0)
