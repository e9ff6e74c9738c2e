"""Pictures as matplotlib figures: of a dataset, of a fit, of a comparison, of an audit, of probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.statistics import dataset_statistics
from graphshift.estimators import Estimator
from graphshift.estimators.answering import Answers
from graphshift.report.audit_page import broken_figure
from graphshift.report.data_figures import FIGURES
from graphshift.report.figures import COLOURS, new_figure, plain
from graphshift.report.reliability_figures import answers_figure, reliability_figure, risk_figure
from graphshift.report.shift_figures import overview_figure
from graphshift.report.study_api import Comparison
from graphshift.report.study_figures import study_figure
from graphshift.shift.auditing.audit import Audit
from graphshift.shift.comparing.compare import Comparison as ShiftComparison
from graphshift.shift.reliability import Reliability

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(thing: Any, kind: str | None = None) -> Figure:
    """Draws something; a notebook shows the figure, and ``figure.savefig("x.png")`` saves it.

    >>> import graphshift as gs
    >>> gs.figure(gs.load("planted", nodes=60)).get_suptitle()[:7]
    'planted'

    Args:
        thing: a dataset, a fitted estimator, or what ``gs.compare``, ``gs.compare_graphs``, ``gs.audit``,
            ``gs.reliability`` or ``model.predict_or_abstain`` gave.
        kind: of a dataset ``"overview"`` (the default), ``"sizes"``, ``"rates"``, ``"tsne"``; of a comparison
            ``"environments"`` (the default), ``"seeds"``, ``"tuning"``; of a reliability ``"reliability"`` (the
            default), ``"risk-coverage"``; an estimator has its learning curve alone.
    """
    if isinstance(thing, ShiftDataset):
        rows = [row for row in dataset_statistics(thing) if row["role"] != "target"]
        return FIGURES[_kind(kind, list(FIGURES))](thing, rows)
    if isinstance(thing, Comparison):
        rule = thing.summary.selections[0].rule
        chosen = _kind(kind, ["environments", "seeds", "tuning"])
        return study_figure(thing.summary, thing.study.rows(rule), rule, chosen)
    if isinstance(thing, Estimator):
        _kind(kind, ["history"])
        return _history(thing)
    if isinstance(thing, ShiftComparison):
        _kind(kind, ["blocks"])
        return overview_figure(thing)
    if isinstance(thing, Audit):
        _kind(kind, ["edges"])
        return broken_figure(thing)
    if isinstance(thing, Reliability):
        panels = {graph: {name: [one] for name, one in kinds.items()} for graph, kinds in thing.graphs.items()}
        draw = {"reliability": reliability_figure, "risk-coverage": risk_figure}
        return draw[_kind(kind, list(draw))](panels)
    if isinstance(thing, Answers):
        _kind(kind, ["risk-coverage"])
        return answers_figure(thing)
    found = type(thing).__name__
    raise GraphshiftError(
        f"figure: {found} has no picture; expected a dataset, estimator, comparison, audit, reliability or answers."
    )


def _kind(kind: str | None, known: list[str]) -> str:
    if kind is not None and kind not in known:
        raise GraphshiftError(f"the kind of picture is {kind!r}; {expected_one_of(kind, known)}")
    return kind or known[0]


def _history(model: Estimator) -> Figure:
    """Loss and validation score against epochs."""
    model._check_fitted()
    rows: list[dict[str, Any]] = [row for row in model.history_ if row["epoch"]]
    if not rows:
        raise GraphshiftError(f"figure: {model.label} has no epochs here: it is fitted in one go, or was loaded.")
    names = [name for name in ("loss", "val") if name in rows[0]]
    made = new_figure(4.2 * len(names), 3.0)
    for axes, name in zip(made.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        axes.plot([row["epoch"] for row in rows], [row[name] for row in rows], color=COLOURS[0])
        axes.axvline(model.best_epoch_, color=COLOURS[3], linestyle="--", linewidth=1)
        title = "training loss" if name == "loss" else f"validation, {model.task_.metric}"
        axes.set(xlabel="epoch", title=title)
        plain(axes, "y")
    made.suptitle(f"{model.label}: epoch {model.best_epoch_} was chosen by {model.settings_['selection']}")
    return made
