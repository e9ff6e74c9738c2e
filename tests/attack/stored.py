"""Arrays that are not what their files promise, with the right checksum: what a file from a stranger may hold."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attack import made
from attack.child import command, run

Case = tuple[str, Callable[[Path], str]]

_FLOATS = (float("nan"), float("inf"), -1e38, 1e38, -1.0)


def checkpoint_cases(base: Path, rng: random.Random, count: int) -> Iterator[Case]:
    """Checkpoints; two of three times it is the policy's state or a generator's that is wrong."""

    def of_interest(name: str) -> bool:
        return ".policy." in name or "rng" in name or "generator" in name

    resume = lambda p: command("fit", "--out", p / "begun", "--resume", "--json")  # noqa: E731
    yield from _tensor_cases(base, "begun/checkpoint.safetensors", [resume], of_interest, rng, count)


def kept_cases(base: Path, rng: random.Random, count: int) -> Iterator[Case]:
    """What a model keeps beside its weights: for sets and estimates, for answers, for adaptations."""

    def predicting(*how: Any) -> Callable[[Path], Callable[[], None]]:
        return lambda p: command("predict", p / "run", "nodes.csv", "edges.csv", "--out", p / "p.csv", *how)

    sets = ("--coverage", 0.8, "--smooth", 0.3)
    kept = {
        "held_out": [
            predicting(*sets, "--weights", "features"),
            predicting(*sets, "--weights", "auto"),
            lambda p: command("estimate", p / "run", "nodes.csv", "edges.csv", "--json", "--no-copies"),
        ],
        "explored": [predicting("--abstain", 0.1), predicting("--calibrate-to-graph")],
        "source": [predicting("--adapt", "centroids"), predicting("--adapt", "neighbours")],
    }
    for name, works in kept.items():
        yield from _tensor_cases(base, f"run/model/{name}.safetensors", works, lambda _: True, rng, count)


def _tensor_cases(
    base: Path,
    file: str,
    works: list[Callable[[Path], Callable[[], None]]],
    of_interest: Callable[[str], bool],
    rng: random.Random,
    count: int,
) -> Iterator[Case]:
    import torch
    from safetensors import safe_open
    from safetensors.torch import save

    from graphshift.core.storage import _crc32

    with safe_open(base / file, framework="pt") as opened:
        metadata = opened.metadata()
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    names = sorted(tensors)
    some = [name for name in names if of_interest(name)]
    for i in range(count):
        changed = {name: t.clone() for name, t in tensors.items()}
        for _ in range(rng.choice([1, 1, 3])):
            name = rng.choice(some if i % 3 else names)
            if name not in changed:
                continue
            flat = changed[name].reshape(-1)
            if rng.random() < 0.2 or not flat.numel():
                changed[name] = rng.choice([flat[:0], flat.repeat(2), flat.double(), flat.int(), flat.reshape(1, -1)])
                if rng.random() < 0.3:
                    del changed[name]
            elif flat.is_floating_point():
                flat[rng.randrange(flat.numel())] = rng.choice(_FLOATS)
            elif flat.dtype == torch.bool:
                flat[rng.randrange(flat.numel())] ^= True
            else:
                least, most = torch.iinfo(flat.dtype).min, torch.iinfo(flat.dtype).max
                flat[rng.randrange(flat.numel())] = rng.choice([least, most, 60, 59, 0, 7])
        content = save({k: v.contiguous() for k, v in changed.items()}, metadata | {"crc32": _crc32(changed)})
        work = works[i % len(works)]

        def test(place: Path, content: bytes = content, work: Any = work) -> str:
            made.fresh(place, base)
            (place / file).write_bytes(content)
            return run(work(place), place).problem()

        yield f"state {file} {i}", test


def partition_cases(base: Path, rng: random.Random, count: int) -> Iterator[Case]:
    """Arrays of a partition folder: other numbers, other shapes, other types, with digests made anew."""
    folders = sorted(path.name for path in (base / "parts/environments").iterdir())
    for i in range(count):
        seed, folder = rng.randrange(2**32), rng.choice(folders)

        def test(place: Path, seed: int = seed, folder: str = folder) -> str:
            made.fresh(place, base)
            _change(place / "parts", folder, random.Random(seed))
            return run(_fit(place), place).problem()

        yield f"partition {folder} {i}", test

    def one_way(note: dict[str, Any]) -> None:
        for one in note["environments"]:
            one["undirected"] = not one["undirected"]

    def elsewhere(note: dict[str, Any]) -> None:
        note["environments"][0]["folder"] = "../../run"

    for what, change in (("another direction", one_way), ("elsewhere", elsewhere)):

        def test_note(place: Path, change: Callable[[dict[str, Any]], None] = change) -> str:
            made.fresh(place, base)
            path = place / "parts/partition.json"
            note = json.loads(path.read_text())
            change(note)
            path.write_text(json.dumps(note))
            return run(_fit(place), place).problem()

        yield f"partition with {what}", test_note


def _fit(place: Path) -> Callable[[], None]:
    small = ("--method", "eerm", "--epochs", 1, "--views", 2, "--edits-per-node", 2, "--hidden", 4, "--json")
    return command("fit", "partition", "-o", f"folder={place / 'parts'}", *small, "--out", place / "new")


def _change(parts: Path, folder: str, rng: random.Random) -> None:
    import numpy as np

    from graphshift.data.partition.format import digest_of

    place, path = parts / "environments" / folder, parts / "partition.json"
    note = json.loads(path.read_text())
    one = next(one for one in note["environments"] if one["folder"] == folder)
    arrays = {file.stem: np.load(file) for file in sorted(place.glob("*.npy"))}
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(sorted(arrays))
        array = arrays[name]
        if rng.random() < 0.25 or not array.size:
            others = [array[:0], array[:-1], np.concatenate([array, array]), array[None], array[::-1]]
            if array.dtype.kind in "iufb":
                others += [array.astype(kind) for kind in (np.float64, np.int64, ">i8")]
            arrays[name] = rng.choice(others)
            if rng.random() < 0.2:
                del arrays[name]
                break
        elif array.dtype.kind == "U":
            array[rng.randrange(len(array))] = rng.choice(["", "\ud7ff", str(array[0])])
        else:
            flat, at = array.reshape(-1), rng.randrange(array.size)
            if array.dtype.kind == "f":
                flat[at] = rng.choice(_FLOATS)
            elif array.dtype.kind == "b":
                flat[:] = rng.choice([True, False])
            else:
                limits = np.iinfo(array.dtype)
                flat[at] = rng.choice([limits.min, limits.max, -1, 0, 1, array.max() + 1, array.size])
    for file in place.glob("*.npy"):
        file.unlink()
    for name, array in arrays.items():
        np.save(place / f"{name}.npy", array, allow_pickle=False)
    if rng.random() < 0.8:  # else the manifest says what was there before
        one["arrays"] = {name: {"dtype": a.dtype.str, "shape": list(a.shape)} for name, a in arrays.items()}
    try:
        spans = list(zip(one["begin"], one["begin"][1:], strict=False))
        one["digests"] = [digest_of(arrays, a, b, part) for part, (a, b) in enumerate(spans)]
    except (KeyError, IndexError, ValueError, TypeError):
        pass  # of arrays that have no parts any more
    path.write_text(json.dumps(note))


def request_cases(base: Path, rng: random.Random, count: int, damaged: Callable[..., bytes]) -> Iterator[Case]:
    """Bodies of requests to the service: each is answered, or refused with one sentence."""
    nodes = [{"id": f"n{i}", "age": 30.5 + i, "job": "nurse"} for i in range(4)]
    body = {"nodes": nodes, "edges": [{"source": "n0", "target": "n1"}], "adapt": "norm", "unknown_ids": "drop"}
    for i in range(count):
        content = damaged(json.dumps(body).encode(), rng)

        def test(place: Path, content: bytes = content) -> str:
            return run(lambda: _ask(base / "run", content), place.parent).problem()

        yield f"request {i}", test


def _ask(model: Path, content: bytes) -> None:
    from pydantic import ValidationError

    from graphshift.estimators.loading import load_model
    from graphshift.serving.service import Refused, Service

    try:
        Service(load_model(model)).predict(content)
    except (Refused, ValidationError) as error:
        print(str(error)[:500])
        raise SystemExit(2) from None
