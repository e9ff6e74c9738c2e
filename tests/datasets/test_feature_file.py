"""A matrix in a file of its own as features: the numbers it has, and a message for each that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.config import options_from_toml_table
from own_tables import ROLES, again, dense, people, quietly


def written(folder: Path, kind: str, shuffled: bool) -> tuple[dict[str, Any], np.ndarray]:
    """Two tables, a feature file in some format and, if its rows are in another order, a file of ids."""
    nodes, edges = people()
    rng = np.random.default_rng(1)
    x = ((rng.random((90, 40)) < 0.2) * rng.random((90, 40))).astype(np.float32)
    x[:, 3] = 2.0
    x[:30, 5] = 0.0  # no training node has it
    order = rng.permutation(90) if shuffled else np.arange(90)
    if kind == "npz":
        scipy.sparse.save_npz(folder / "x.npz", scipy.sparse.csr_array(x[order]))
    else:
        scipy.io.mmwrite(folder / "x.mtx", scipy.sparse.coo_array(x[order]))
    nodes[["id", "label", "country", "member"]].to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    options = {"nodes": "nodes.csv", "edges": "edges.csv", "feature_file": f"x.{kind}", **ROLES}
    if shuffled:
        (folder / "rows.txt").write_text("\n".join(nodes["id"].to_numpy()[order]) + "\n")
        options["feature_ids"] = "rows.txt"
    return options, x


@pytest.mark.parametrize("kind", ["npz", "mtx"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_features_from_a_file_beside_the_table(tmp_path: Path, kind: str, shuffled: bool) -> None:
    options, x = written(tmp_path, kind, shuffled)
    data = quietly(from_tables, **options_from_toml_table(options, tmp_path))
    kept = [i for i in range(40) if i not in (3, 5)]
    preparation = data.facts["preparation"]
    assert preparation.feature_names == ["member", *(f"x:{i}" for i in kept)]
    said = "2 of 40 columns are constant in training and left out: 3, 5 (from 0)."
    assert f"{tmp_path / options['feature_file']}: {said}" in data.facts["report"]
    for number, environment in enumerate(data.environments):
        rows = slice(30 * number, 30 * number + 30)
        np.testing.assert_allclose(dense(environment.x)[:, 1:].numpy(), x[rows][:, kept], rtol=1e-5)
    preparation.save(tmp_path)
    assert str(tmp_path) not in (tmp_path / "preparation.json").read_text()
    new = again(preparation, tmp_path / "nodes.csv", tmp_path / "edges.csv")
    np.testing.assert_allclose(dense(new.x)[:, 1:].numpy(), x[:, kept], rtol=1e-5)


def test_a_feature_file_that_does_not_fit_is_named(tmp_path: Path) -> None:
    options, x = written(tmp_path, "npz", shuffled=False)
    data = quietly(from_tables, **options_from_toml_table(options, tmp_path))
    preparation = data.facts["preparation"]
    nodes, edges = people()
    with pytest.raises(GraphshiftError, match=r"feature_file is missing: the model was trained with x.npz"):
        preparation.environment(nodes, edges)
    scipy.sparse.save_npz(tmp_path / "narrow.npz", scipy.sparse.csr_array(x[:, :9]))
    with pytest.raises(GraphshiftError, match=r"narrow.npz: the matrix has 9 columns and training had 40"):
        preparation.environment(nodes, edges, feature_file=tmp_path / "narrow.npz")
    scipy.sparse.save_npz(tmp_path / "short.npz", scipy.sparse.csr_array(x[:50]))
    np.savez(tmp_path / "pickled.npz", np.array([{}], dtype=object))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "x.npz").read_bytes()[:200])
    (tmp_path / "text.mtx").write_text("hello")
    (tmp_path / "few.txt").write_text("p1\np2\n")
    (tmp_path / "twice.txt").write_text("p1\n" * 90)
    (tmp_path / "other.txt").write_text("\n".join(f"q{i}" for i in range(90)))
    scipy.sparse.save_npz(tmp_path / "nan.npz", scipy.sparse.csr_array(np.where(x > 0, np.nan, 0)))
    for change, message in (
        ({"feature_file": "none.npz"}, "none.npz: there is no such file"),
        ({"feature_file": "nodes.csv"}, "nodes.csv: expected a file that ends in .npz"),
        ({"feature_file": "short.npz"}, r"short.npz: the matrix has 50 rows and .*nodes.csv has 90"),
        ({"feature_file": "pickled.npz"}, "pickled.npz: this is not a whole sparse matrix"),
        ({"feature_file": "cut.npz"}, "cut.npz: this is not a whole sparse matrix"),
        ({"feature_file": "text.mtx"}, "text.mtx: this is not a whole sparse matrix"),
        ({"feature_file": "nan.npz"}, r"nan.npz: \d+ values are NaN or infinite"),
        ({"feature_ids": "few.txt"}, r"x.npz: the matrix has 90 rows and .*few.txt has 2"),
        ({"feature_ids": "twice.txt"}, "twice.txt: id 'p1' stands twice"),
        ({"feature_ids": "other.txt"}, "other.txt: 90 nodes of .*nodes.csv have no row, such as 'p0'"),
        ({"feature_ids": "gone.txt"}, "gone.txt: cannot be read"),
    ):
        with pytest.raises(GraphshiftError, match=message):
            from_tables(**options_from_toml_table(options | change, tmp_path))
