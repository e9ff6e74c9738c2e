"""Whole numbers that are codes are told from quantities by the training labels, and become 0/1 features."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import graphshift as gs
from graphshift.core.errors import GraphshiftWarning
from graphshift.datasets.tables.codes import are_codes, lack_of_fit
from graphshift.datasets.tables.preparation import read_preparation


def test_the_fit_is_that_of_two_regressions() -> None:
    """Sums of squares of ordinary least squares on all rows: a dummy for each value, and a straight line."""
    random = np.random.default_rng(0)
    values = random.integers(10, 16, 400).astype(float)  # with so few values the curve has one bend
    labels = 0.3 * values + random.normal(size=6)[values.astype(int) - 10] + random.normal(size=400)
    found = lack_of_fit(values, labels, classes=False)
    dropped = 10.0 if (values == 10).sum() > (values == 15).sum() else 15.0
    values, labels = values[values != dropped], labels[values != dropped]
    median = np.sort(values)[int(np.ceil(0.5 * len(values))) - 1]
    line = np.column_stack([np.ones_like(values), values, np.maximum(values - median, 0)])
    dummies = (values[:, None] == np.unique(values)).astype(float)
    rss = [float(np.linalg.lstsq(design, labels, rcond=None)[1][0]) for design in (line, dummies)]
    n, k = len(values), dummies.shape[1]
    f = (rss[0] - rss[1]) / (k - 3) / (rss[1] / (n - k))
    assert found is not None
    assert found.p == pytest.approx(stats.f.sf(f, k - 3, n - k), rel=1e-9)
    variance = labels.var(ddof=1)
    assert found.by_curve == pytest.approx(1 - rss[0] / (n - 3) / variance, rel=1e-9)
    assert found.by_values == pytest.approx(1 - rss[1] / (n - k) / variance, rel=1e-9)


def test_classes_are_their_indicators_together() -> None:
    """Three classes: the sums of squares of three 0/1 columns, each fitted alone, are added."""
    random = np.random.default_rng(1)
    values, labels = random.integers(0, 30, 900).astype(float), random.integers(0, 3, 900)
    found = lack_of_fit(values, labels, classes=True)
    alone = [lack_of_fit(values, (labels == c).astype(float), classes=False) for c in range(3)]
    assert found is not None
    kept = labels[values != (0.0 if (values == 0).sum() > (values == 29).sum() else 29.0)]
    variance = np.array([(kept == c).var() for c in range(3)])
    together = sum(v * one.by_values for v, one in zip(variance, alone, strict=True) if one) / variance.sum()
    assert found.by_values == pytest.approx(together, rel=1e-9)


def test_codes_and_quantities() -> None:
    """Effects without order are codes; lines, steps, bows, counts and noise are not."""
    random = np.random.default_rng(2)
    found = {"codes": 0, "codes, 0 for none": 0, "noise": 0, "line": 0, "step": 0, "bow": 0, "counts": 0}
    for _ in range(40):
        values = random.integers(0, 40, 1_500).astype(float)
        effect = random.normal(size=40)
        counts = random.poisson(3.0, 1_500).astype(float)
        shown = {
            "codes": (values, effect[values.astype(int)]),
            "codes, 0 for none": (
                np.where(values < 20, 0.0, values),
                np.where(values < 20, 3.0, effect[values.astype(int)]),
            ),
            "noise": (values, 0 * values),
            "line": (values, values / 12),
            "step": (values, 2.0 * (values > 17)),
            "bow": (values, np.abs(values - 20) / 6),
            "counts": (counts, np.log1p(counts)),
        }
        for name, (column, mean) in shown.items():
            labels = np.digitize(mean + random.logistic(size=1_500), [0.0, 1.5])
            found[name] += are_codes(column, labels, classes=True, columns=100)
    assert found.pop("codes") == 40
    assert found.pop("codes, 0 for none") >= 36  # of twenty codes, some lie on a curve by chance
    assert set(found.values()) == {0}, found


def test_codes_with_a_trend_are_codes() -> None:
    """Small codes are the old shops, and each is a shop all the same. The level is that of all columns together."""
    random = np.random.default_rng(6)
    values = random.integers(0, 40, 3_000).astype(float)
    trend = values / 15
    labels = (trend + 0.7 * random.normal(size=40)[values.astype(int)] + random.logistic(size=3_000) > 1.0).astype(int)
    fit = lack_of_fit(values, labels, classes=True)
    assert fit is not None
    assert 0.02 < fit.by_curve < 0.8 * fit.by_values
    assert are_codes(values, labels, classes=True)
    assert not are_codes(values, (trend + random.logistic(size=3_000) > 1.0).astype(int), classes=True)
    fit = lack_of_fit(values[:700], labels[:700], classes=True)  # fewer rows: it depends on the number of columns
    assert fit is not None
    assert are_codes(values[:700], labels[:700], classes=True, columns=int(0.009 / fit.p))
    assert not are_codes(values[:700], labels[:700], classes=True, columns=int(0.011 / fit.p) + 1)


def test_too_little_to_tell() -> None:
    """Values of their own for nearly every row, two values, one label, numbers that are not whole: not codes."""
    labels = np.arange(60) % 2
    for column in (np.arange(60.0), np.arange(60.0) % 2, np.arange(60.0) % 6 + 0.5, np.full(60, np.nan)):
        assert lack_of_fit(column, labels, classes=True) is None
    assert lack_of_fit(np.arange(60.0) % 6, np.zeros(60), classes=True) is None
    assert lack_of_fit(np.arange(60.0) % 6, np.full(60, np.nan), classes=False) is None


@pytest.fixture
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Codes of shops that decide the label, an age that does too, and counts of words."""
    random = np.random.default_rng(3)
    shop, age = random.integers(500, 530, 1_200), random.integers(18, 80, 1_200)
    good = random.permutation(np.arange(30) % 2)
    likes = (good[shop - 500] * 3 + (age > 50) * 2 + random.logistic(size=1_200)) > 2.5
    place = np.repeat(["a", "b", "c"], [600, 300, 300])
    nodes = pd.DataFrame({"id": range(1_200), "place": place, "shop": shop, "age": age})
    nodes["label"] = np.where(likes, "yes", "no")
    return nodes, pd.DataFrame({"source": range(0, 1_200, 2), "target": range(1, 1_200, 2)})


def _load(nodes: pd.DataFrame, edges: pd.DataFrame, **options: object) -> gs.ShiftDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        roles = {"environments": "place", "train": "a", "val": "b", "tests": "c"}
        return gs.from_tables(nodes, edges, label="label", **roles, **options)  # type: ignore[arg-type]


def test_auto_makes_codes_one_hot_and_says_so(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """Codes get a feature each; ages stay one number; logistic regression then learns what it could not."""
    data = _load(*tables)
    names = data.facts["preparation"].feature_names
    assert names == [f"shop={code}" for code in range(500, 530)] + ["age"]
    assert any("column 'shop' of codes that look like numbers as 0/1 features" in line for line in data.facts["report"])
    plain = _load(*tables, scale={"shop": "standard"})
    assert plain.facts["preparation"].feature_names == ["shop", "age"]
    scores = [gs.Logistic().fit(one).score(one.tests[0]) for one in (data, plain)]
    assert scores[0] > scores[1] + 0.1
    named = _load(*tables, categorical=["shop"])
    assert (named.tests[0].x == data.tests[0].x).all()


def test_only_training_labels_decide(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """Labels of validation and tests may say anything."""
    nodes, edges = tables
    random = np.random.default_rng(5)
    other = nodes.assign(label=nodes["label"].where(nodes["place"] == "a", "yes"))
    assert _load(other, edges).facts["preparation"] == _load(nodes, edges).facts["preparation"]
    shuffled = random.permutation(np.tile(["yes", "no"], 600))
    noise = nodes.assign(label=np.where(nodes["place"] == "a", shuffled, nodes["label"]))
    assert _load(noise, edges).facts["preparation"].feature_names == ["shop", "age"]


def test_saved_codes_are_read_as_numbers(tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path) -> None:
    """7, 7.0 and 07 are one code; a word, an unseen code and a missing cell are no code, and are counted."""
    data = _load(*tables)
    data.facts["preparation"].save(tmp_path)
    preparation = read_preparation(tmp_path / "preparation.json")
    assert preparation == data.facts["preparation"]
    assert preparation.text_columns == ["label"]
    (tmp_path / "nodes.csv").write_text("id,shop,age\n1,501.0,30\n2,0501,30\n3,501,30\n4,x,30\n5,999,30\n6,,30\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    with pytest.warns(GraphshiftWarning, match="column 'shop': 2 values that training never had"):
        graph, _ = preparation.environment(tmp_path / "nodes.csv", tmp_path / "edges.csv")
    expected = np.zeros((6, 30))
    expected[:3, 1] = 1
    assert (graph.x[:, :30].numpy() == expected).all()


def test_quantities_as_labels(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """In regression the labels' values decide."""
    nodes, edges = tables
    random = np.random.default_rng(4)
    effect = dict(zip(range(500, 530), random.permutation(30), strict=True))
    nodes = nodes.assign(label=nodes["shop"].map(effect) + 0.01 * nodes["age"] + random.normal(size=1_200))
    assert len(_load(nodes, edges).facts["preparation"].feature_names) == 31
