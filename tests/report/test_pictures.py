"""What Jupyter shows: HTML that is whole and escaped, with the numbers of the thing; and figures as objects."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.core.html import html_curve, html_table
from graphshift.report.study_api import Comparison
from small import environments
from tiny_studies import everything

EVIL = '<script>alert("x")</script>'


class _Balanced(HTMLParser):
    """Every tag that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        """It is closed."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(text: str) -> str:
    """The text without tags."""
    parser = _Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert "<script" not in text
    return re.sub(r"<[^>]+>", " ", text)


def test_a_dataset_shows_every_environment() -> None:
    data = gs.load("planted", nodes=60, environments=4)
    text = checked(data._repr_html_())
    for role, found in data.roles.items():
        for e in found:
            assert re.search(rf"{role}\s+{e.name}\s+60\s+{e.graph.num_edges:,}\s", text)
    share = 100 * data.train[0].majority
    assert f"{share:.0f} %" in text
    assert EVIL not in checked(data.train[0].replace(name=EVIL)._repr_html_())


def test_an_estimator_shows_what_was_chosen_and_its_course() -> None:
    training, val = environments(2)
    model = gs.EERM(epochs=4, views=2, hidden_channels=4)
    assert "EERM: not fitted" in checked(model._repr_html_())
    model.fit(training, val)
    bundle = model._repr_mimebundle_()
    text = checked(bundle["text/html"])
    assert f"epoch {model.best_epoch_} by val, score {model.best_score_:.4g}" in text
    assert f"loss: {model.history_[0]['loss']:.4g} → {model.history_[-1]['loss']:.4g}" in text
    assert re.search(r"views\s+2\s", text)
    assert "every setting" in text
    ensemble = gs.Ensemble([model, model])
    assert f"{model.best_epoch_}" in checked(ensemble._repr_html_())
    assert "Largest class: fitted" in checked(gs.Majority().fit(training, val)._repr_html_())


def test_a_study_and_a_comparison_show_their_arms() -> None:
    study = everything()
    comparison = Comparison(study)
    for text in (checked(study._repr_html_()), checked(comparison._repr_html_())):
        for arm in study.summary.arm_names():
            assert arm in text
    assert comparison.text.split(".")[0][:40] in checked(comparison._repr_html_())


def test_tables_are_escaped_and_cut() -> None:
    text = html_table(EVIL, [EVIL], [[EVIL], [True], [12345], [0.5]], note=EVIL)
    assert "12,345" in checked(text)
    assert "and 10 more" in checked(html_table("t", ["n"], [[i] for i in range(60)]))
    assert html_curve([1.0], "x") == ""
    assert html_curve([1.0] * 2000, "x").count(",") < 1200
    points = re.findall(r"points=\"([^\"]+)", html_curve([0.0, 1.0, 3.0], "x"))[0].split()
    heights = [float(point.split(",")[1]) for point in points]
    assert heights[0] - heights[1] == pytest.approx((heights[1] - heights[2]) / 2, abs=0.11)


def test_figures_are_objects() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    data = gs.load("planted", nodes=60, environments=4)
    training, val = environments(2)
    model = gs.ERM(epochs=3, hidden_channels=4).fit(training, val)
    drawn = gs.figure(model)
    lines = drawn.axes[0].lines[0]
    assert list(lines.get_ydata()) == [row["loss"] for row in model.history_]
    for thing, kind in (
        (data, None),
        (data, "sizes"),
        (Comparison(everything()), None),
        (Comparison(everything()), "tuning"),
    ):
        assert isinstance(gs.figure(thing, kind), Figure)
    assert drawn._repr_png_().startswith(b"\x89PNG")  # what Jupyter asks for
    for thing, kind, said in (
        (data, "overvew", "Did you mean 'overview'"),
        (model, "loss", "expected one of history"),
        (Data(), None, "Data has no picture"),
        (gs.Majority().fit(training, val), None, "has no epochs here"),
    ):
        with pytest.raises(GraphshiftError, match=said):
            gs.figure(thing, kind)
