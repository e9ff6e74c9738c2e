"""Every part runs with tiny sizes and measures what it promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import graphshift as gs
from graphshift.core.cluster import connect
from graphshift.core.errors import GraphshiftError
from graphshift.datasets import DATASETS
from graphshift.explorers import EXPLORERS
from graphshift.lab.bench.bars import on_ray, start
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.outcome import Measurement, show
from graphshift.lab.bench.parts import CHECKED, PARTS, SECTIONS, chosen_parts
from ray_cluster import cluster_of


def run(name: str, bench: Bench) -> dict[str, Measurement]:
    import_module(f"graphshift.lab.bench.{PARTS[name].module}").run(bench)
    assert bench.outcome.failures == []
    found = {one.id: one for one in bench.outcome.measurements}
    assert len(found) == len(bench.outcome.measurements)
    return found


@pytest.fixture
def with_data(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Small built-in data in place of the real ones."""
    monkeypatch.setattr(Bench, "has_data", lambda self, name: True)
    monkeypatch.setattr(Bench, "real_data", lambda self, name: gs.load("planted", nodes=60, environments=3))
    return bench


def bars(found: dict[str, Measurement]) -> dict[str, tuple[float | None, bool]]:
    return {id: (one.bar, one.higher_is_better) for id, one in found.items()}


def test_floor(bench: Bench) -> None:
    found = run("floor", bench)
    assert bars(found) == {
        "random-over-floor-60": (1.25, False),
        "reinforce-early-over-floor-60": (1.6, False),
        "reinforce-after-2-over-floor-60": (1.6, False),
    }
    for one, record in zip(found.values(), bench.outcome.data["steps"], strict=True):
        assert one.value == pytest.approx(record["seconds"] / record["floor"])
    assert len(bench.outcome.tables[0].rows) == 3


def test_serving(bench: Bench) -> None:
    pytest.importorskip("fastapi")
    found = run("serving", bench)
    assert bars(found) == {
        f"serve-{what}-{part}": (None, part == "throughput")
        for what in ("small", "changed")
        for part in ("over-bare", "p99", "throughput")
    }
    data = bench.outcome.data["small"]
    assert len(data["alone"]) == 8
    assert found["serve-small-over-bare"].value == pytest.approx(median(data["alone"]) / data["bare"])
    assert sorted(data["together"])[-2] <= found["serve-small-p99"].value / 1000 <= max(data["together"])
    assert len(bench.outcome.tables[0].rows) == 2


def test_exponent(bench: Bench) -> None:
    found = run("exponent", bench)
    assert bars(found) == {"exponent-difference-60-120": (0.05, False)}
    fitted = bench.outcome.data["exponents"]
    assert found["exponent-difference-60-120"].value == pytest.approx(fitted["eerm"] - fitted["erm"])


def test_batches(bench: Bench) -> None:
    found = run("batches", bench)
    assert bars(found) == {"batched-over-full-600": (1.5, False)}
    whole, made = bench.outcome.tables
    (point,) = bench.outcome.data["batches"]
    assert point["batched"]["seen"] == point["full"]["seen"] == point["edges"]  # two parts in one batch
    assert found["batched-over-full-600"].value == pytest.approx(point["batched"]["epoch"] / point["full"]["epoch"])
    assert 0 < point["batched"]["making"] < point["batched"]["epoch"]
    assert [row[:2] for row in made.rows] == [["600", "parts"], ["600", "nodes, 15,10 neighbours"]]
    assert len(whole.rows) == 1
    assert list(bench.folder.iterdir()) == []


def test_reach(bench: Bench) -> None:
    pytest.importorskip("pyarrow")
    found = run("reach", bench)
    assert bars(found) == {"reach-peak-divided-600": (None, False), "reach-peak-trained-600": (None, False)}
    (point,) = bench.outcome.data["reach"]
    assert point["lines"] == 6000
    trained = point["trained"]
    assert trained["nodes"] == 600  # two parts in one batch, so the whole graph
    assert trained["seen"] == trained["edges"]
    assert 4_000 < trained["edges"] < 6_000  # repetitions and self-loops are out
    assert trained["predict"] > 0
    assert len(bench.outcome.tables) == 2
    assert list(bench.folder.iterdir()) == []


def test_ray(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def patient() -> Iterator[str]:
        with cluster_of(2) as found:
            connect(found.address)
            yield found.address

    pytest.importorskip("ray")
    monkeypatch.setattr(on_ray, "_cluster", patient)
    found = run("ray", bench)
    assert bars(found) == {"ray-study-over-local": (1.2, False), "ray-two-over-one-400": (0.65, False)}
    study, training = bench.outcome.tables
    assert study.rows[0][0] == "2"  # ERM and EERM, one seed
    assert training.rows[0][0] == "400"
    for id, (row,) in zip(found, (study.rows, training.rows), strict=True):
        assert row[3] == show(found[id].value)
        one, two = (float(cell) for cell in row[1:3])  # rounded seconds, of which small ones say little
        rounded = 0.5 / 10 ** len(row[1].partition(".")[2])
        assert (two - rounded) / (one + rounded) <= found[id].value
        assert found[id].value * (one - rounded) <= two + rounded


def test_ray_needs_two_processors(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "missing_extra", lambda package, what: None)
    monkeypatch.setattr(on_ray.os, "cpu_count", lambda: 1)
    (found,) = run("ray", bench).values()
    assert (found.value, found.reason) == (None, "needs 2 processors")


def test_million(bench: Bench) -> None:
    found = run("million", bench)
    assert bars(found) == {"peak-random-60": (4.5, False), "peak-random-60-low-memory": (2.5, False)}
    assert found["peak-random-60"].value == bench.outcome.data["normal"]["peak"] / 1e9


def test_shift(bench: Bench) -> None:
    bench.sizes = replace(bench.sizes, million=600)
    found = run("shift", bench)
    assert bars(found) == {"shift-600": (60.0, False), "peak-shift-600": (4.0, False)}
    told = bench.outcome.data["comparison"]
    assert found["shift-600"].value == told["compare"] / 1e6 > 0
    assert found["peak-shift-600"].value == told["peak"] / 1e9 > 0


def test_tables(bench: Bench) -> None:
    found = run("tables", bench)
    expected = {"tables-120-seconds": (25.0, False), "tables-120-peak": (1.2, False)}
    assert bars(found) == expected | {"tables-120-over-pandas": (None, False)}
    times = bench.outcome.data
    assert found["tables-120-seconds"].value == pytest.approx((times["load"] + times["fit"]) / 1e6)
    assert found["tables-120-over-pandas"].value == pytest.approx(times["load"] / times["pandas"])


def test_twitch(with_data: Bench) -> None:
    found = run("twitch", with_data)
    assert bars(found) == {"twitch-random-over-3-erm": (1.1, False), "twitch-policies-after-2": (300.0, False)}
    assert found["twitch-policies-after-2"].value == with_data.outcome.data["policy_bytes"] / 1e6 > 0


def test_cora(with_data: Bench) -> None:
    found = run("cora", with_data)
    assert bars(found) == {"cora-epoch-over-erm-early": (9.0, False), "cora-epoch-over-erm-after-2": (9.0, False)}


def test_dense(bench: Bench) -> None:
    found = run("dense", bench)
    assert bars(found) == {
        "dense-explorer-time-60": (100.0, True),
        "dense-step-time-60": (None, True),
        "dense-explorer-bytes-60": (10.0, True),
        "dense-peak-60": (10.0, True),
    }
    held = bench.outcome.data["memory"]
    assert found["dense-explorer-bytes-60"].value == held["dense"]["explorers"] / held["reinforce"]["explorers"]
    assert [row[1] for row in bench.outcome.tables[0].rows] == ["3", "2", "3"]


def test_pyg(with_data: Bench) -> None:
    found = run("pyg", with_data)
    for name in ("cora", "twitch", "planted-60"):
        assert found[f"erm-over-pyg-{name}"].bar == 0.7
        assert found[f"erm-over-pyg-csr-{name}"].bar is None
        record = with_data.outcome.data[name]
        assert found[f"erm-over-pyg-{name}"].value == pytest.approx(record["ours"] / record["pyg"])


def test_start(with_data: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(start, "_process", lambda bench, arguments: started.append(list(arguments)))
    found = run("start", with_data)
    assert bars(found) == {"fit-over-import": (2.0, False)}
    fits = [arguments for arguments in started if "fit" in arguments]
    assert started[1] == ["-c", "import torch_geometric"]
    assert [arguments[:6] for arguments in fits] == [["-m", "graphshift.cli", "fit", "cora", "--epochs", "1"]] * 2
    assert len({arguments[arguments.index("--out") + 1] for arguments in fits}) == 2


def test_a_fit_that_fails_is_no_fast_fit(bench: Bench) -> None:
    with pytest.raises(RuntimeError, match="ended with 2: no such thing"):
        start._process(bench, ["-c", "import sys; print('no such thing', file=sys.stderr); sys.exit(2)"])
    start._process(bench, ["-c", "import os; assert os.environ['OMP_NUM_THREADS'] == '1'"])


@pytest.mark.parametrize("name", ["twitch", "cora", "start"])
def test_absent_data_are_said(name: str, bench: Bench) -> None:
    found = run(name, bench)
    assert found
    for one in found.values():
        assert one.value is None
        assert one.bar is not None
        assert "are not there (--data-dir)" in one.reason


def test_pyg_without_data_has_the_planted_graph(bench: Bench) -> None:
    found = run("pyg", bench)
    assert {id for id, one in found.items() if one.value is None} == {"erm-over-pyg-cora", "erm-over-pyg-twitch"}
    assert found["erm-over-pyg-planted-60"].value is not None


def test_data_count_as_there_when_all_their_files_are(bench: Bench, tmp_path: Path) -> None:
    sources = DATASETS["cora"].sources
    for source in sources:
        assert not bench.has_data("cora")
        (tmp_path / source.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source.path).write_text("")
    assert bench.has_data("cora")


def test_curves(bench: Bench) -> None:
    run("curves", bench)
    points = bench.outcome.data["points"]
    seen = {(p["axis"], p["value"], p["method"]) for p in points}
    plain = ("erm", "random", "reinforce", "gradient")
    expected: set[tuple[str, int, str]] = set()
    for axis, values in bench.sizes.axes.items():
        expected |= {(axis, value, method) for value in values for method in plain}
        expected |= {(axis, value, "dense") for value in values if axis != "nodes" or value == 60}
    assert seen == expected
    for point in points:
        assert point["seconds"] > 0
        assert (point["memory"] is None) == (point["axis"] == "features")
        assert point["at"] == {**bench.sizes.base, point["axis"]: point["value"]}
    assert [table.title for table in bench.outcome.tables] == [
        "Against nodes N",
        "Against views K",
        "Against features",
        "Fitted exponents",
    ]
    assert bench.outcome.tables[0].rows[1][5] == "–"  # no dense explorer above its limit
    assert list(bench.folder.glob("*.safetensors")) == []


def test_memory_is_measured_once_where_axes_cross(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def held(file: Path, kind: str, **options: Any) -> dict[str, int]:
        asked.append((file.name if kind != "erm" else "", kind, options["views"]))
        return {"before": 1, "peak": 3, "explorers": 0}

    monkeypatch.setattr("graphshift.lab.bench.curves.peak_of", held)
    run("curves", bench)
    # nodes: two points of four methods and one dense; views: the second point is the base, and ERM has no views.
    assert len(asked) == 9 + 4


def test_backbones(bench: Bench) -> None:
    run("backbones", bench)
    assert [row[0] for row in bench.outcome.tables[0].rows] == ["gcn", "mlp"]
    assert set(bench.outcome.data["gcn"]) == {"floor", "erm", "eerm", "eerm_low_memory", "memory", "memory_low_memory"}


def test_explorers(bench: Bench) -> None:
    run("explorers", bench)
    for table, nodes in zip(bench.outcome.tables, bench.sizes.floor, strict=True):
        times = bench.outcome.data[f"{nodes}"]
        assert set(times) == set(EXPLORERS)
        assert [row[0] for row in table.rows] == list(times)
        assert table.rows[0][0] == "random"
        assert [row[2] for row in table.rows] == [show(t / times["random"]) for t in times.values()]
    assert not bench.outcome.failures


def test_a_stage_that_fails_leaves_the_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(file: Path, kind: str, **options: Any) -> dict[str, int]:
        if options["low_memory"]:
            raise MemoryError(f"{file} is too large")
        return {"before": 1, "peak": 3, "explorers": 0}

    monkeypatch.setattr("graphshift.lab.bench.bars.million.peak_of", held)
    import_module("graphshift.lab.bench.bars.million").run(bench)
    assert [one.id for one in bench.outcome.measurements] == ["peak-random-60"]
    (failure,) = bench.outcome.failures
    assert failure == {
        "what": "1 steps on 60 nodes, low memory",
        "reason": "MemoryError: …/million.safetensors is too large",
    }


def test_names_choose_parts_and_sections() -> None:
    assert chosen_parts(None) == list(PARTS)
    assert chosen_parts([], default=CHECKED) == list(CHECKED)
    assert chosen_parts(["start", "floor"]) == ["floor", "start"]
    assert chosen_parts(["bars"]) == [name for name in PARTS if name not in ("curves", "backbones", "explorers")]
    assert SECTIONS == ("bars", "curves", "backbones", "explorers")
    assert not {"million", "tables"} & set(CHECKED)
    assert "floor" in CHECKED
    with pytest.raises(
        GraphshiftError, match=r"--only is 'flour'; expected one of bars, curves, backbones, explorers, floor"
    ):
        chosen_parts(["floor", "flour"])


def test_every_part_has_its_module() -> None:
    for part in PARTS.values():
        assert callable(import_module(f"graphshift.lab.bench.{part.module}").run)
