"""Other scales and shapes of a column: what its mean does not say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from scipy.stats import ks_2samp

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.data.structure import STRUCTURAL_NAMES, structural_columns
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.numeric import Unit
from graphshift.report.shift_tables import columns_table
from graphshift.shift.comparing.compare import compare_graphs
from graphshift.shift.comparing.crossing import crossings
from graphshift.shift.comparing.sides import Pair, make_pair
from graphshift.shift.comparing.tables import Tables, read_pair


@pytest.fixture(scope="module")
def graphs() -> tuple[Environment, Environment]:
    """Two draws with eight columns around 0 that have nothing to do with classes."""
    data = gs.load("planted", nodes=500, environments=3)
    generator = torch.Generator().manual_seed(0)
    source, target = (e.replace(x=torch.randn(500, 8, generator=generator)) for e in (data.train[0], data.tests[0]))
    return source, target


def changed(e: Environment, how: Callable[[torch.Tensor], torch.Tensor]) -> Environment:
    assert isinstance(e.x, torch.Tensor)
    x = e.x.clone()
    x[:, 3] = how(x[:, 3])
    return e.replace(x=x)


def two_humps(z: torch.Tensor) -> torch.Tensor:
    """Mean and deviation of a bell curve, and another shape."""
    return 0.95 * z.sign() + 0.3122 * z


@pytest.mark.parametrize("how", [lambda z: 1000 * z, lambda z: 0.4 * z, two_humps], ids=["units", "scale", "shape"])
def test_a_column_that_moved_around_its_mean_is_named(
    graphs: tuple[Environment, Environment], how: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    source, target = graphs
    found = compare_graphs(source, changed(target, how))["features"]
    first, second, *_ = found.details["columns"]
    assert found.moved
    assert found.details["columns_moved"] == 1
    assert first["column"] == "column 3"
    assert first["p"] < 0.05 < min(first["p_mean"], second["p"])
    assert abs(first["difference"]) < 0.2
    assert "most of all column 3 (" in found.says
    assert "have at most" in found.says


def test_a_column_whose_mean_moved_is_told_by_its_mean(graphs: tuple[Environment, Environment]) -> None:
    source, target = graphs
    found = compare_graphs(source, changed(target, lambda z: z + 1))["features"]
    assert f"most of all column 3 ({found.details['columns'][0]['difference']:+.2f} deviations)" in found.says


def test_other_units_are_named_where_the_source_is_around_0(graphs: tuple[Environment, Environment]) -> None:
    source, target = graphs
    found = compare_graphs(source, changed(target, lambda z: 1000 * (z - z.mean())))
    assert any("scale of column 3" in caveat and "other units" in caveat for caveat in found["features"].caveats)
    assert not any("units" in caveat for caveat in compare_graphs(source, target)["features"].caveats)


def test_where_two_distributions_differ_most_is_what_kolmogorov_and_smirnov_say(
    graphs: tuple[Environment, Environment],
) -> None:
    source, target = graphs[0], changed(graphs[1], two_humps)
    found = compare_graphs(source, target)
    for row in found["features"].details["columns"]:
        place = int(row["column"].removeprefix("column "))
        values = [e.x[:, place].numpy() for e in (source, target)]  # type: ignore[index]
        expected = ks_2samp(*values)
        assert row["apart"] == pytest.approx(expected.statistic)
        assert row["at"] == pytest.approx(expected.statistic_location)
        assert row["source_at_most"] == pytest.approx((values[0] <= row["at"]).mean())
    shares = f"{100 * row['source_at_most']:.0f} → {100 * row['target_at_most']:.0f} % have at most {row['at']:.3g}"
    assert columns_table(found).rows[-1][4] == shares


def counted_anew(pair: Pair, table: np.ndarray, column: int, cut: float) -> np.ndarray:
    """The nodes above a value in each part, less what their classes' shares over both sides explain."""
    above, classes, target = table[:, column] > cut, pair.counted_classes, pair.parts.target_nodes
    assert classes is not None
    share = {
        c: np.mean([above[(classes == c) & (target == side)].mean() for side in (False, True)]) for c in set(classes)
    }
    left = above - np.array([share[c] for c in classes])
    return np.array([left[pair.parts.number == part].sum() for part in range(pair.parts.count)])


def test_counts_are_those_of_the_nodes_dense_and_sparse(graphs: tuple[Environment, Environment]) -> None:
    pair = make_pair(*graphs, tuple("0123"), 0)
    rng = np.random.default_rng(1)
    table = rng.normal(size=(1000, 12)).astype(np.float32)
    table[:, 0] = rng.integers(0, 2, 1000)  # two values
    table[:, 1] = 7.0
    table[:, 2] = np.where(rng.random(1000) < 0.7, 0, table[:, 2])
    table[:, 3] = np.where(rng.random(1000) < 0.99, 0, table[:, 3])  # hardly any
    table[:, 4] = rng.integers(0, 3, 1000)
    table[:, 5] = np.where(rng.random(1000) < 0.5, -1, 1)
    found = crossings(pair, table)
    sparse = crossings(pair, scipy.sparse.csr_array(table))
    for one in (found, sparse):
        assert set(one.column) == {2, 4, 6, 7, 8, 9, 10, 11}
        assert (np.bincount(one.column)[6:] == 7).all()
    assert (found.column == sparse.column).all()
    np.testing.assert_allclose(sparse.totals, found.totals)
    np.testing.assert_allclose(sparse.gap, found.gap)
    for i, column in enumerate(found.column):
        ordered = np.sort(table[:, column])
        place = int((found.column[:i] == column).sum())
        cuts = np.unique(ordered[np.arange(1, 8) * 1000 // 8])
        cuts = cuts[cuts < ordered[-20]]
        np.testing.assert_allclose(found.totals[:, i], counted_anew(pair, table, int(column), cuts[place]), atol=1e-9)


def test_no_column_with_more_than_two_values() -> None:
    data = gs.load("planted", nodes=300, environments=3)
    ones = [e.replace(x=(torch.as_tensor(e.x) > 0).float()) for e in (data.train[0], data.tests[0])]
    pair = make_pair(ones[0], ones[1], tuple("0123"), 0)
    table = pair.counted((pair.source.x, pair.target.x))
    assert crossings(pair, table).totals.shape == (pair.parts.count, 0)
    assert compare_graphs(*ones)["features"].p is not None


def test_values_are_told_in_the_units_of_the_table(tmp_path: Path) -> None:
    """Prepared columns have mean 0 and deviation 1; people know theirs."""
    rng, paths, frames = np.random.default_rng(0), [], []
    for name, factor in (("old", 1.0), ("new", 100.0)):
        balance = rng.normal(1000, 200, 300) + (factor - 1) * rng.normal(0, 2, 300)
        dates = np.datetime64("2020-01-01") + rng.integers(0, 700, 300)
        nodes = {"id": range(300), "balance": balance, "income": rng.lognormal(8, 2, 300), "since": dates.astype(str)}
        frames.append(pd.DataFrame(nodes | {"job": rng.choice(["a", "b", "c"], 300)}))
        frames[-1].to_csv(tmp_path / f"{name}_nodes.csv", index=False)
        edges = pd.DataFrame({"source": rng.integers(0, 300, 900), "target": rng.integers(0, 300, 900)})
        edges.to_csv(tmp_path / f"{name}_edges.csv", index=False)
        paths.append(Tables(tmp_path / f"{name}_nodes.csv", tmp_path / f"{name}_edges.csv"))
    read = read_pair(*paths, {})
    found = compare_graphs(read.source, read.target, column_names=read.column_names, column_units=read.column_units)
    rows = {row["column"]: row for row in found["features"].details["columns"]}
    first, second = (frame["balance"] for frame in frames)
    assert rows["balance"]["source"] == pytest.approx(first.mean())
    assert rows["balance"]["target"] == pytest.approx(second.mean(), rel=1e-5)
    assert rows["balance"]["source_at_most"] == pytest.approx((first <= rows["balance"]["at"] + 0.01).mean())
    assert rows["balance"]["histogram"]["bins"][0] == pytest.approx(
        pd.concat([first, second]).quantile(0.005), rel=1e-3
    )
    assert rows["income"]["of"] == "log"
    assert rows["income"]["source"] == pytest.approx(np.log1p(frames[0]["income"]).mean(), rel=1e-5)
    assert 2020 < rows["since"]["source"] < 2022
    assert rows["since"]["of"] == "year"
    assert {"income (log)", "since (year)", "job=a"} <= {row[0] for row in columns_table(found).rows}
    with pytest.raises(GraphshiftError, match="1 column units for"):
        compare_graphs(read.source, read.target, column_units=read.column_units[:1])


@pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")
def test_units_of_every_treatment() -> None:
    rng = np.random.default_rng(1)
    nodes = pd.DataFrame(
        {"id": range(80), "a": rng.normal(50, 9, 80), "b": rng.normal(size=80), "v": [0, 0, 1, 1] * 20}
    )
    nodes.loc[4, "a"] = None
    edges = pd.DataFrame({"source": rng.integers(0, 80, 200), "target": rng.integers(0, 80, 200)})
    how = {"label": "v", "structure": True, "scale": {"b": "rank"}}
    data = from_tables(nodes.assign(part=["x", "y"] * 40), edges, environments="part", train="x", tests="y", **how)
    preparation = data.facts["preparation"]
    by_name = dict(zip(preparation.feature_names, preparation.feature_units, strict=True))
    assert len(by_name) == data.train[0].num_features
    values = {name: np.asarray(data.train[0].x)[:, i] for i, name in enumerate(by_name)}
    own = nodes[::2].reset_index(drop=True)
    there = own["a"].notna()
    mean, scale, of = by_name["a"]
    np.testing.assert_allclose(mean + scale * values["a"][there], own["a"][there], rtol=1e-5)
    assert of == ""
    assert by_name["a missing"] == Unit()
    mean, scale, of = by_name["b"]
    np.testing.assert_allclose(mean + scale * values["b"], (own["b"].rank() - 0.5) / 40, atol=1e-5)
    assert of == "rank"
    structure = structural_columns(data.train[0].graph).numpy()
    for name, column in zip(STRUCTURAL_NAMES, structure.T, strict=True):
        mean, scale, _ = by_name[name]
        np.testing.assert_allclose(mean + scale * values[name], column, atol=1e-5)
