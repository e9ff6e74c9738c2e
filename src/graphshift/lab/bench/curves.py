"""Time and memory of a step against nodes, views, edits, degree and features: one axis at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.exponents import exponent
from graphshift.lab.bench.memory import peak_of, save_environment
from graphshift.lab.bench.outcome import show
from graphshift.lab.bench.workload import METHODS, new_method, planted_environment, stepping

#: What the axes are called, with the symbols of the paper.
AXES = {
    "nodes": "nodes N",
    "views": "views K",
    "edits": "edits per node s",
    "degree": "mean degree",
    "features": "features",
}

#: A measured point: its ``axis`` and ``value`` there, ``at`` (all axes), ``method``, ``seconds``, ``memory`` or None.
Point = dict[str, Any]

_STEPS = 3  # before the peak is read; a policy keeps growing; it is measured in its first steps here


def run(bench: Bench) -> None:
    """Measures every axis through the base point."""
    points: list[Point] = []
    bench.outcome.data |= {"base": dict(bench.sizes.base), "points": points}
    known: dict[str, dict[str, int]] = {}
    try:
        for axis in bench.sizes.axes:
            points += _measure(bench, axis, known)
    finally:  # also after Ctrl-C
        for axis in bench.sizes.axes:
            _tabulate(bench, points, axis)
        _tabulate_exponents(bench, points)


def _measure(bench: Bench, axis: str, known: dict[str, dict[str, int]]) -> list[Point]:
    """All points of an axis. They are timed in turns, so that a disturbance does not bend the curve."""
    sizes, files = bench.sizes, dict[int, Path]()
    made: list[Point] = []
    jobs: list[Callable[[], None]] = []
    for value in sizes.axes[axis]:
        at = {**sizes.base, axis: value}
        with bench.stage(f"{AXES[axis]} = {value:,}"):
            environment = planted_environment(at["nodes"], degree=at["degree"], features=at["features"])
            files[value] = save_environment(environment, bench.folder / f"{axis}-{value}.safetensors")
            for kind in METHODS:
                if kind != "dense" or at["nodes"] <= sizes.dense_limit:
                    job = stepping(new_method(environment, kind, **_options(at)), environment)
                    job()  # what does not fit fails here, alone
                    jobs.append(job)
                    made.append({"axis": axis, "value": value, "at": at, "method": kind, "memory": None})
            del environment
    with bench.stage(f"time against {AXES[axis]}"):
        for point, seconds in zip(made, bench.time(*jobs), strict=True):
            point["seconds"] = seconds
    jobs.clear()
    points = [point for point in made if "seconds" in point]
    if axis in sizes.memory_axes:
        for point in points:
            with bench.stage(f"{AXES[axis]} = {point['value']:,}, memory of {METHODS[point['method']]}"):
                point["memory"] = _held(bench, point, files[point["value"]], known)
    for file in files.values():
        file.unlink()
    return points


def _held(bench: Bench, point: Point, file: Path, known: dict[str, dict[str, int]]) -> dict[str, int]:
    """The point's peak; what was measured on another axis is not measured again."""
    at, kind = point["at"], point["method"]
    # ERM has neither views nor edits.
    name = f"{kind} {[at[axis] for axis in AXES if kind != 'erm' or axis not in ('views', 'edits')]}"
    if name not in known:
        known[name] = peak_of(file, kind, steps=_STEPS, threads=bench.threads, **_options(at))
    return known[name]


def _options(at: Mapping[str, int]) -> dict[str, Any]:
    return {"views": at["views"], "edits": at["edits"]}


def own_memory(point: Point) -> float | None:
    """The bytes that data and training take: a process's peak above its start; None if that was not measured."""
    held = point["memory"]
    return None if held is None else float(held["peak"] - held["before"])


def on_axis(points: Sequence[Point], axis: str, method: str) -> list[Point]:
    """The points of a method along an axis, in order."""
    own = [point for point in points if (point["axis"], point["method"]) == (axis, method)]
    return sorted(own, key=lambda point: point["value"])


def exponents_of(points: Sequence[Point], axis: str, method: str) -> tuple[float | None, float | None]:
    """The fitted exponents of time and of memory, of a method along an axis."""
    own = on_axis(points, axis, method)
    held = [(point["value"], amount) for point in own if (amount := own_memory(point)) is not None]
    time = exponent([point["value"] for point in own], [point["seconds"] for point in own])
    return time, exponent([value for value, _ in held], [amount for _, amount in held])


def _tabulate(bench: Bench, points: Sequence[Point], axis: str) -> None:
    lines = {kind: {point["value"]: point for point in on_axis(points, axis, kind)} for kind in METHODS}
    lines = {kind: line for kind, line in lines.items() if line}
    with_memory = any(point["memory"] for line in lines.values() for point in line.values())
    rows: list[list[str]] = []
    for value in sorted({value for line in lines.values() for value in line}):
        own = [line.get(value) for line in lines.values()]
        times = ["–" if point is None else f"{1e3 * point['seconds']:,.1f}" for point in own]
        held = [None if point is None else own_memory(point) for point in own]
        memory = ["–" if one is None else show(one / 1e6) for one in held] if with_memory else []
        rows.append([f"{value:,}", *times, *memory])
    columns = [AXES[axis], *(f"{METHODS[kind]} (ms)" for kind in lines)]
    columns += [f"{METHODS[kind]} (MB)" for kind in lines] if with_memory else []
    rest = ", ".join(f"{AXES[name]} = {value:,}" for name, value in bench.sizes.base.items() if name != axis)
    note = f"{rest}; one step, in the first steps of a run"
    note += "; MB: peak of a fresh process above what it held before the data" if with_memory else ""
    bench.table(f"Against {AXES[axis]}", columns, note).extend(rows)


def _tabulate_exponents(bench: Bench, points: Sequence[Point]) -> None:
    note = "b of a · x^b, least squares on logarithms over the points above"
    rows = bench.table("Fitted exponents", ("against", "method", "time", "memory"), note)
    for axis in bench.sizes.axes:
        for kind, name in METHODS.items():
            fitted = ["–" if one is None else f"{one:.2f}" for one in exponents_of(points, axis, kind)]
            rows += [[AXES[axis], name, *fitted]] if fitted != ["–", "–"] else []
