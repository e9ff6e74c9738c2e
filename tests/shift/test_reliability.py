"""Reliability diagrams and risk–coverage curves against counting by hand; the figures show them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import METRICS, confidence_bins
from graphshift.report.reliability_page import reliability_page, verdict
from graphshift.shift.reliability import Curves, Reliability, curves_of


def drawn(n: int = 400) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return random.integers(0, 3, n), random.dirichlet([1, 1, 1], n)


def test_bins_are_those_that_counting_finds() -> None:
    y, p = drawn()
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    found = list(zip(*confidence_bins(y, p), strict=True))
    wanted, gaps = [], 0.0
    for b in range(15):
        own = [i for i in range(len(y)) if b / 15 < sure[i] <= (b + 1) / 15 + 1e-15]
        if own:
            wanted.append((len(own), np.mean(sure[own]), np.mean(right[own])))
            gaps += len(own) * abs(wanted[-1][1] - wanted[-1][2])
    np.testing.assert_allclose(found, wanted)
    assert METRICS["ece"].compute(y, p) == pytest.approx(gaps / len(y))


def test_the_curve_ends_at_the_error_and_survives_json() -> None:
    y, p = drawn()
    found = curves_of(y, p)
    assert found.curve[-1] == (1.0, pytest.approx(1 - found.accuracy))
    order = np.argsort(-p.max(axis=1), kind="stable")
    wrong = (p.argmax(axis=1) != y)[order]
    for share, risk in found.curve:
        assert risk == pytest.approx(wrong[: round(share * len(y))].mean(), abs=1e-5)
    assert sum(count for count, *_ in found.bins) == found.nodes == 400
    assert Curves.from_json(found.to_json()) == found


@pytest.fixture(scope="module")
def found() -> Any:
    data = gs.load("planted", nodes=100)
    model = gs.ERM(epochs=5).fit(data)
    model.explore(data.val)
    return gs.reliability(model, data.tests, data.val)


def test_figures_show_every_graph_and_kind(found: Any) -> None:
    kinds = ["raw", "validation", "target", "moved"]
    assert all(list(one) == kinds for one in found.graphs.values())
    for kind, value in (("reliability", "ece"), ("risk-coverage", "aurc")):
        panels = [axes for axes in gs.figure(found, kind).axes if axes.get_visible()]
        assert [axes.get_title() for axes in panels] == list(found.graphs)
        for axes, curves in zip(panels, found.graphs.values(), strict=True):
            texts = [text.get_text() for text in axes.get_legend().get_texts()]
            digits = 1 if value == "ece" else 2
            assert texts == [f"{k}: {100 * getattr(c, value):.{digits}f} %" for k, c in curves.items()]
            shown = next(line for line in axes.get_lines() if line.get_label() == texts[0])
            raw = curves["raw"]
            wanted = [one[2] for one in raw.bins] if kind == "reliability" else None
            assert wanted is None or shown.get_ydata() == pytest.approx(wanted)
    with pytest.raises(GraphshiftError, match="risk-coverage"):
        gs.figure(found, "risk")


def test_a_page_and_a_notebook_show_the_numbers(found: Any) -> None:
    text, small = reliability_page(found, "<b>"), found._repr_html_()
    for row in found.rows():
        assert f">{row[4]}<" in text
        assert f">{row[4]}<" in small
    assert "<b>" not in text
    before, after = (np.mean([one[kind].ece for one in found.graphs.values()]) for kind in ("raw", "moved"))
    assert f"{100 * before:.1f} points" in text
    assert f"{100 * after:.1f} points calibrated" in text
    first = next(iter(found.graphs))
    assert f"points from accuracy on {first} as it is" in verdict(Reliability({first: found.graphs[first]}))


def test_answers_have_a_picture() -> None:
    data = gs.load("planted", nodes=100)
    model = gs.ERM(epochs=5).fit(data)
    model.explore(data.val)
    answers = model.predict_or_abstain(data.tests[0], 0.3)
    (axes,) = gs.figure(answers).axes
    line = axes.get_lines()[0]
    assert line.get_ydata()[-1] == pytest.approx(1 - answers.right.mean())


def test_values_have_no_probabilities() -> None:
    data = gs.load("planted", nodes=60)
    graphs = [e.replace(y=e.y.float(), task=gs.Task("regression", 0)) for e in (data.train[0], data.val[0])]
    model = gs.ERM(epochs=1).fit(graphs[0], val=graphs[1])
    with pytest.raises(GraphshiftError, match="no probabilities"):
        gs.reliability(model, graphs[1])
