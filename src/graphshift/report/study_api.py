"""Studies from Python: ``graphshift.compare`` and ``graphshift.recommend``."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from graphshift.core.html import html_table
from graphshift.data.dataset import ShiftDataset
from graphshift.estimators.predictor import Graphs
from graphshift.report.study_recommendation import recommendation_blocks
from graphshift.report.study_report import write_report
from graphshift.report.study_tables import as_csv, main_tables
from graphshift.report.study_words import summary_paragraph
from graphshift.report.tables import print_table
from graphshift.studies import Plan, Study, Summary, crossed_arms, run_study
from graphshift.studies.budget import seconds_of
from graphshift.studies.engines import LOCAL, Engine
from graphshift.studies.plan import COMMITTEE
from graphshift.studies.recommending import Recommendation, recommend_on

#: What is compared if nobody says: the paper's method, its baseline, and models without a GNN.
DEFAULT_METHODS = ("erm", "eerm", "majority", "logistic", "forest")


@dataclass(frozen=True)
class Comparison:
    """A finished comparison.

    Attributes:
        study: the plan, every fit and the summary.
        folder: where it was written; None if it was kept in memory.
    """

    study: Study = field(repr=False)
    folder: Path | None = None

    @property
    def summary(self) -> Summary:
        """Everything that tables and figures show."""
        return self.study.summary

    @property
    def text(self) -> str:
        """What was found, in one paragraph."""
        return summary_paragraph(self.summary)

    @property
    def frame(self) -> pd.DataFrame:
        """One line for each arm and rule, with every number in full."""
        return pd.read_csv(io.StringIO(as_csv(self.summary)))

    @property
    def runs(self) -> pd.DataFrame:
        """One line for each final run and rule: arm, seeds, validation score, and the score on each test."""
        lines = []
        for rule in self.study.plan.selections:
            for row in self.study.rows(rule):
                line: dict[str, Any] = {"arm": row.arm, "selection": rule, "data_seed": row.seeds[0]}
                line |= {"seed": row.seeds[1], "epoch": row.best_epoch, "val": row.val, "choosing": row.choosing}
                lines.append(line | row.tests)
        return pd.DataFrame(lines)

    def _repr_html_(self) -> str:
        """For Jupyter: the paragraph and the table."""
        table = main_tables(self.summary)[0]
        return html_table(table.title, table.columns, table.rows, note=table.note) + f"<p>{escape(self.text)}</p>"

    def __str__(self) -> str:
        table = main_tables(self.summary)[0]
        text = io.StringIO()
        print_table(table.title, table.columns, table.rows, note=table.note, file=text)
        return f"{self.text}\n\n{text.getvalue()}"


def compare(
    data: ShiftDataset | str,
    methods: Sequence[str] = DEFAULT_METHODS,
    backbones: Sequence[str] | None = None,
    explorers: Sequence[str] = ("reinforce",),
    *,
    seeds: int | Sequence[int] = 5,
    trials: int = 24,
    adapt: Sequence[str] = (),
    selections: Sequence[str] = ("val",),
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    in_domain: bool = False,
    ensemble: int = 1,
    committee: bool = False,
    out: str | Path | None = None,
    workers: int = 0,
    threads: int | None = None,
    engine: Engine = LOCAL,
    force: bool = False,
    progress: bool = False,
    log: Sequence[str] = (),
) -> Comparison:
    """Tunes every arm with the same budget, runs it with fresh seeds and compares it with ERM in pairs.

    Test labels are never used for selection, unless the rule ``"oracle"`` is asked for. Data without tests are compared
    on validation. What cannot be on these data is skipped, and the result says why.

    Args:
        data: a :class:`~graphshift.data.dataset.ShiftDataset`, or a dataset's name.
        methods: by name; each with every backbone, if it has one.
        backbones: by name; None for the dataset's own.
        explorers: of ``"eerm"``, by name; each is an arm.
        seeds: how many final runs of each arm, or their seeds.
        trials: of each arm's tuning; 0 tunes nothing.
        adapt: ways of using the unlabelled graph, ``"norm"``, ``"prior"``, ``"norm+prior"``; rows of their own.
        selections: rules that choose epoch and setting. ``"val"`` becomes ``"id_val"`` where there is no validation.
        settings: hyper-parameters that all arms share, such as ``{"epochs": 100}``.
        options: of a dataset that is loaded by name.
        in_domain: also cross-validate ERM on the labels of each test graph.
        ensemble: also score so many models that differ in their seed, averaged; 1 for none.
        committee: one more arm, the mean of one model of every other arm, each with the setting that tuning chose.
        out: a folder for tables, figures, the page and every result; a study that is there is resumed. None: memory.
        workers: processes that fit at the same time; 0 fits in this one. On a cluster 0: as many as there is room for.
        threads: of each; None takes ``OMP_NUM_THREADS``, or shares the cores among the workers.
        engine: where fits run: ``gs.Engine("ray", address="HOST:6379")`` for a Ray cluster.
        force: replace the study in ``out``.
        progress: show how far it is on standard error.
        log: experiment trackers that every fit is logged to, as ``"mlflow:sqlite:///mlflow.db"``.
    """
    arms = [*crossed_arms(methods, backbones, explorers, common=settings), *([COMMITTEE] if committee else [])]
    final = range(seeds) if isinstance(seeds, int) else seeds
    scored: dict[str, Any] = {"selections": selections, "adapt": adapt, "in_domain": in_domain, "ensemble": ensemble}
    plan = Plan(data, arms, final, options or {}, trials=trials, resample=True, **scored)  # type: ignore[arg-type]
    folder = None if out is None else Path(out)
    how: dict[str, Any] = {"workers": workers, "threads": threads, "engine": engine, "force": force}
    study = run_study(plan, folder, progress=progress, log=log, **how)
    if folder is not None:
        write_report(study, folder)
    return Comparison(study, folder)


def recommend(
    data: ShiftDataset | str,
    budget: str | float = "3m",
    *,
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    target: Graphs | Literal["tests"] | str | None = None,
    committee: bool = False,
    misleading_edges: bool = False,
    out: str | Path | None = None,
    workers: int = 0,
    threads: int | None = None,
    engine: Engine = LOCAL,
    force: bool = False,
    progress: bool = False,
) -> Recommendation:
    """Compares simple models, ERM and EERM in the time there is, and says which to use.

    Test labels are never used. ``recommendation.estimator().fit(data)`` trains what is recommended. With an unlabelled
    target the answer is for that: it says what has moved, what every candidate is expected to score there, and when not
    to trust it.

    Args:
        data: a :class:`~graphshift.data.dataset.ShiftDataset`, or a dataset's name; tests and target may be empty.
        budget: how long it may take: ``"90s"``, ``"20m"``, ``"2h"``, or seconds.
        settings: hyper-parameters that all candidates share.
        target: unlabelled graphs to choose for: graphs, ``"tests"`` for the tests without their labels, or
            ``"NODES.csv,EDGES.csv"`` for data of tables; None for the role ``target`` of the data, if it has one.
        committee: also try the mean of one model of every candidate.
        misleading_edges: also answer for graphs whose edges may become misleading.
        out: a folder for the study, its page and ``recommendation.json``. None: memory.
        options, workers, threads, engine, force, progress: as in :func:`compare`.
    """
    folder = None if out is None else Path(out)
    how: dict[str, Any] = {"workers": workers, "threads": threads, "force": force, "progress": progress}
    how["engine"] = engine
    asked: dict[str, Any] = {"common": settings, "misleading_edges": misleading_edges}
    asked |= {"target": target, "committee": committee}
    found = recommend_on(data, options, budget=seconds_of(budget), folder=folder, **asked, **how)
    if folder is not None:
        write_report(found.study, folder, answer=recommendation_blocks(found))
    return found
