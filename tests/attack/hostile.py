"""Hostile inputs: every kind of file that graphshift reads, damaged by chance and by design."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attack import made, raw, stored
from attack.child import command, run

#: Written into JSON as they stand.
RAW = {
    "deep list": "[" * 3000 + "]" * 3000,
    "deep table": '{"a":' * 3000 + "1" + "}" * 3000,
    "not too deep": "[" * 45 + "]" * 45,
    "5,000 digits": "9" * 5000,
    "30 digits": "9" * 30,
    "beyond floats": "1e999",
    "not a number": "NaN",
    "minus infinity": "-Infinity",
    "largest float": "1.7976931348623157e308",
    "2^63": str(2**63),
    "2^31": str(2**31),
    "minus one": "-1",
    "zero": "0",
    "a half": "0.5",
    "true": "true",
    "null": "null",
    "no text": '""',
    "text": '"x"',
    "long text": json.dumps("x" * 100_000),
    "surrogate": '"\\ud800"',
    "path": '"../../../../etc/passwd"',
    "no list": "[]",
    "list of lists": "[[1, 2], [3]]",
    "no table": "{}",
    "table": '{"a": {"b": 1}}',
    "many": json.dumps(list(range(20_000))),
}

_MARK = "\ue000"
Case = tuple[str, Callable[[Path], str]]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Bytes with something wrong: flipped, cut off, left out, said twice, put in."""
    size, out = len(content), bytearray(content)
    at, other = sorted((rng.randrange(size + 1), rng.randrange(size + 1)))
    kind = rng.randrange(9)
    if kind <= 2:
        for _ in range(rng.choice([1, 1, 1, 4, 40])):
            out[rng.randrange(size)] ^= 1 << rng.randrange(8)
    elif kind == 3:
        del out[at:]
    elif kind == 4:
        del out[at:other]
    elif kind == 5:
        out[at:at] = out[at:other]
    elif kind == 6:
        out[at:at] = rng.choice([b"\0" * 50, b"\xff\xfe", b"[" * 3000, b'"', b"{}", b"\n\n", b"9" * 6000, b"1e999,"])
    elif kind == 7:
        out = bytearray(rng.choice([b"", b"\n", b"null", b"[]", b"{}", b"\x80\x04K\x01.", b"\xef\xbb\xbf" + content]))
    else:
        numbers = [i for i, byte in enumerate(content) if byte in b"0123456789"]
        for place in rng.sample(numbers, min(3, len(numbers))):
            out[place : place + 1] = rng.choice([b"-", b"9" * 30, b"e9", b"NaN", b"."])
    return bytes(out)


def _places(content: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield prefix
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for name, value in items:
        yield from _places(value, (*prefix, name))


def _with(content: Any, place: tuple[Any, ...], raw: str | None) -> str:
    """JSON with another value at a place, or without the place."""
    content = json.loads(json.dumps(content))
    if not place:
        return raw or ""
    inner = content
    for name in place[:-1]:
        inner = inner[name]
    if raw is None:
        del inner[place[-1]]
    else:
        inner[place[-1]] = _MARK
    return json.dumps(content, ensure_ascii=False).replace(f'"{_MARK}"', raw or "")


def _outcome(work: Callable[[], Any], place: Path) -> str:
    return run(work, place).problem()


def _file_case(
    base: Path, name: str, content: bytes, work: Callable[[Path], Callable[[], Any]]
) -> Callable[[Path], str]:
    def test(place: Path) -> str:
        made.fresh(place, base)
        (place / name).unlink(missing_ok=True)
        (place / name).write_bytes(content)
        return _outcome(work(place), place)

    return test


def uses() -> dict[str, Callable[[Path], Callable[[], Any]]]:
    """By file how it is used. Files of the same use are read by one command."""
    score = lambda p: command("score", p / "run", p / "my.toml", "--json")  # noqa: E731
    predict = lambda p: command("predict", p / "run", p / "nodes.csv", p / "edges.csv", "--out", p / "p.csv")  # noqa: E731
    resumed = lambda p: command("fit", "--out", p / "run", "--resume", "--json", "--checkpoint-every", 0)  # noqa: E731
    begun = lambda p: command("fit", "--out", p / "begun", "--resume", "--json")  # noqa: E731
    ensemble = lambda p: command("score", p / "ensemble", "planted", "-o", "nodes=60", "--json")  # noqa: E731
    study = lambda p: lambda: made.study(p / "study")  # noqa: E731
    fit = lambda p: command("fit", p / "my.toml", "--epochs", 1, "--json", "--out", p / "new")  # noqa: E731
    estimate = lambda p: command("estimate", p / "run", p / "nodes.csv", p / "edges.csv", "--json", "--no-copies")  # noqa: E731
    edge = lambda p: command("fit", p / "edge.toml", "--epochs", 1, "--json", "--out", p / "new")  # noqa: E731
    parts = lambda p: command(  # noqa: E731
        "fit",
        "partition",
        "-o",
        f"folder={p / 'parts'}",
        "--epochs",
        1,
        "--json",
        "--method",
        "erm",
        "--out",
        p / "new",
    )
    half = lambda p: command(  # noqa: E731
        "partition", p / "my.toml", *made.PARTS, "--out", p / "half", "--resume"
    )
    return {
        "run/model/model.json": score,
        "run/model/weights.safetensors": score,
        "run/model/preparation.json": predict,
        "run/model/held_out.safetensors": estimate,
        "run/config.json": resumed,
        "run/result.json": resumed,
        "run/history.jsonl": resumed,
        "ensemble/ensemble.json": ensemble,
        "ensemble/member-2/model/model.json": ensemble,
        "begun/config.json": begun,
        "begun/history.jsonl": begun,
        "begun/checkpoint.safetensors": begun,
        "study/plan.json": study,
        "study/results.jsonl": study,
        "study/provenance.json": study,
        "parts/partition.json": parts,
        "parts/preparation.json": parts,
        "parts/environments/000-A/rowptr.npy": parts,
        "parts/environments/001-B/x.npy": parts,
        "half/request.json": half,
        "half/environments/000-A/environment.json": half,
        "my.toml": fit,
        "nodes.csv": fit,
        "edges.csv": fit,
        "edge.toml": edge,
        "links.csv": edge,
    }


def json_cases(base: Path, rng: random.Random, each: int) -> Iterator[Case]:
    """Wrong values at every kind of place of every JSON file of ours, the checkpoint's note among them."""
    for name, work in uses().items():
        if name.endswith(".json"):
            content = json.loads((base / name).read_text())
        elif name.endswith("results.jsonl"):
            content = json.loads((base / name).read_text().splitlines()[0])
        elif name.endswith("checkpoint.safetensors"):
            content = json.loads(_note(base / name)[0]["graphshift"])
        else:
            continue
        places = list(_places(content))
        for i in range(each):
            place = places[i] if i < len(places) else rng.choice(places)
            what = rng.choice([*RAW, "missing"])
            text = _with(content, place, None if what == "missing" else RAW[what]).encode(errors="surrogatepass")
            if name.endswith(".jsonl"):
                text += b"\n" + b"\n".join((base / name).read_bytes().splitlines()[1:]) + b"\n"
            elif name.endswith(".safetensors"):
                text = _with_note(base / name, text.decode(errors="replace"))
            yield f"json {name} {'.'.join(map(str, place))}: {what}", _file_case(base, name, text, work)


def _note(path: Path) -> tuple[dict[str, str], bytes, bytes]:
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = content[8 : 8 + size]
    return json.loads(header)["__metadata__"], header, content[8 + size :]


def _with_note(path: Path, note: str) -> bytes:
    metadata, header, rest = _note(path)
    changed = json.loads(header) | {"__metadata__": metadata | {"graphshift": note}}
    text = json.dumps(changed).encode()
    return struct.pack("<Q", len(text)) + text + rest


def byte_cases(base: Path, rng: random.Random, each: int) -> Iterator[Case]:
    """Damaged bytes of every file."""
    for name, work in uses().items():
        content = (base / name).read_bytes()
        for i in range(each):
            yield f"bytes {name} {i}", _file_case(base, name, damaged(content, rng), work)


TOML = {
    "deep": "x = " + "[" * 2000 + "]" * 2000,
    "dotted": "a" + ".a" * 100_000 + " = 1",
    "dotted header": "[" + "a." * 60_000 + "a]",
    "quoted dots": '"a"' + '."a"' * 50_000 + " = 1",
    "deep inline": "x = " + "{a = " * 1000 + "1" + "}" * 1000,
    "digits": "epochs = " + "9" * 5000,
    "hex": "epochs = 0x" + "F" * 20_000,
    "infinite": "lr = inf",
    "nan": "lr = nan",
    "date": "epochs = 2020-13-45",
    "list": 'method = ["erm"]',
    "table": "method = {a = 1}",
    "negative": "epochs = -1",
    "huge": "hidden = 1000000000",
    "layers": "layers = 1000000000000",
    "two": "[data]\n[data]",
    "number as text": 'epochs = "3"',
    "options": "backbone_options = {heads = 1e99}",
    "no text": "\0\0\0",
    "long": "# " + "x" * 3_000_000,
}

OPTIONS = ["nodes=" + v for v in (
    "-1", "0", "1", "1e9", "nan", "inf", "1" * 5000, "[[[[1]]]]", "[" * 2000, "{a=1}", "true", "'x'", "none",
    "0x" + "F" * 9999,
    "2020-01-01", "9" * 19, "=", "", "1\nx=2", "a.b", "\x00",
)]  # fmt: skip
OPTIONS += [
    "degree=1e308",
    "degree=-inf",
    "degree=nan",
    "environments=99999999999",
    "=3",
    "nodes",
    "nope=1",
    "x" * 9000,
]


def text_cases(base: Path) -> Iterator[Case]:
    """TOML beyond the limits, options of the command line, budgets and counts that nobody means."""
    head = (base / "my.toml").read_bytes()
    for name, text in TOML.items():
        yield f"toml {name}", _file_case(base, "my.toml", text.encode() + b"\n" + head, uses()["my.toml"])
        yield f"toml {name} in data", _file_case(base, "my.toml", head + text.encode() + b"\n", uses()["my.toml"])
    small = ("--epochs", 1, "--json", "--method", "erm")
    for i, option in enumerate(OPTIONS):
        work = command("fit", "planted", "-o", option.replace("\0", "?"), *small, "--out", "new")
        yield f"option {option[:30]!r}", lambda p, work=work: _outcome(work, made.fresh(p, base))
        also = command("data", "describe", "planted", "-o", option.replace("\0", "?"))
        if i % 3 == 0:
            yield f"option {option[:30]!r} of data", lambda p, work=also: _outcome(work, made.fresh(p, base))
    for words in (
        ("recommend", "planted", "--budget", "8760h"),
        ("recommend", "planted", "--budget", "9" * 400 + "h"),
        ("compare", "planted", "--seeds", 10**9),
        ("compare", "planted", "--tune", 10**12),
        ("compare", "planted", "--threads-per-worker", 10**9),
        ("compare", "planted", "--ensemble", 10**9),
        ("fit", "planted", "-o", "nodes=60", "--memory-limit", "9" * 500),
        ("fit", "planted", "-o", "nodes=60", "--views", 10**12),
        ("fit", "planted", "-o", "nodes=60", "--seed", 10**30, "--epochs", 1),
        ("fit", "planted", "-o", "nodes=60", "--lr", "1e308", "--epochs", 2),
        ("fit", "planted", "-o", "nodes=60", "--explorer-lr", "1e12", "--explorer-optimizer", "sgd", "--epochs", 3),
        ("fit", "planted", "-o", "nodes=60", "--layers", 10**9),
        ("fit", "planted", "-o", "nodes=60", "--hidden", 10**9),
    ):
        yield (
            f"words {' '.join(map(str, words))[:60]}",
            lambda p, words=words: _outcome(command(*words), made.fresh(p, base)),
        )


def place_cases(base: Path) -> Iterator[Case]:
    """A pipe, a device, a folder, a loop or nothing where a file should be; a pickle where weights should be."""

    def pipe(path: Path) -> None:
        os.mkfifo(path)

    things: dict[str, Callable[[Path], None]] = {
        "pipe": pipe,
        "device": lambda path: path.symlink_to("/dev/zero"),
        "folder": lambda path: path.mkdir(),
        "loop": lambda path: path.symlink_to(path),
        "nothing": lambda path: None,
        "pickle": lambda path: path.write_bytes(_pickle(path.parent)) and None,
        "large": lambda path: path.touch() or os.truncate(path, 3 * 1024**3),
    }
    for name, work in uses().items():
        for what, put in things.items():

            def test(p: Path, name: str = name, work: Any = work, put: Any = put) -> str:
                made.fresh(p, base)
                (p / name).unlink()
                put(p / name)
                found = _outcome(work(p), p)
                return "code was run" if any(p.rglob("canary")) else found

            yield f"{what} for {name}", test


def _pickle(folder: Path) -> bytes:
    return b"cos\nsystem\n(S'touch " + str(folder / "canary").encode() + b"'\ntR."


def table_cases(base: Path, rng: random.Random, each: int) -> Iterator[Case]:
    """Tables that are packed, damaged, wide, large, or bombs."""
    for ending in ("csv.gz", "parquet"):
        toml = (base / "my.toml").read_text().replace('.csv"', f'.{ending}"')
        for name in ("nodes", "edges"):
            content = (base / f"{name}.{ending}").read_bytes()
            for i in range(each):

                def test(
                    p: Path, name: str = f"{name}.{ending}", content: bytes = damaged(content, rng), toml: str = toml
                ) -> str:
                    made.fresh(p, base)
                    (p / "my.toml").write_text(toml)
                    (p / name).write_bytes(content)
                    return _outcome(uses()["my.toml"](p), p)

                yield f"bytes {name}.{ending} {i}", test
    row = b"p1,A,yes,40,nurse\n"
    bombs = {
        "gzip bomb": ("nodes.csv.gz", lambda: gzip.compress(b"id,land,vote,age,job\n" + row * 40_000_000, 1, mtime=0)),
        "gzip of zeros": ("nodes.csv.gz", lambda: gzip.compress(bytes(600_000_000), 1, mtime=0)),
        "parquet bomb": ("nodes.parquet", lambda: _parquet(300_000_000)),
        "parquet words": ("nodes.parquet", lambda: _parquet(200_000, words=100_000)),
        "300,000 columns": ("nodes.csv", lambda: _wide(300_000)),
        "15,000 columns": ("nodes.csv", lambda: _wide(15_000)),
        "parquet of 300,000 columns": ("nodes.parquet", lambda: _parquet(3, columns=60_000)),
        "a line of 50 MB": ("nodes.csv", lambda: b"id," + b"x" * 50_000_000),
    }
    for what, (name, make) in bombs.items():

        def test(p: Path, name: str = name, make: Any = make) -> str:
            made.fresh(p, base)
            ending = name.partition(".")[2]
            (p / "my.toml").write_text((base / "my.toml").read_text().replace("nodes.csv", f"nodes.{ending}"))
            run(lambda: (p / name).write_bytes(make()), p)
            return _outcome(uses()["my.toml"](p), p)

        yield what, test
    for value in ("1e20", "1e30", "1e38", "1e39", "-1e38", "1e-45", "inf", "nan", "9" * 400, "1e400", "0x10", "١٢"):

        def test(p: Path, value: str = value) -> str:
            made.fresh(p, base)
            lines = (p / "nodes.csv").read_text().splitlines()
            for i in (1, 25, 45):
                fields = lines[i].split(",")
                lines[i] = ",".join([*fields[:3], value, fields[4]])
            (p / "nodes.csv").write_text("\n".join(lines))
            return _outcome(uses()["my.toml"](p), p)

        yield f"value {value[:10]}", test


def _parquet(rows: int, words: int = 0, columns: int = 1) -> bytes:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    column: Any = pa.array(np.zeros(rows, dtype=np.int8))
    if words:
        column = pa.DictionaryArray.from_arrays(column, pa.array(["x" * words]))
    out = io.BytesIO()
    pq.write_table(pa.table({f"c{i}": column for i in range(columns)}), out)
    return out.getvalue()


def _wide(columns: int) -> bytes:
    names = ",".join(f"c{i}" for i in range(columns))
    rows = [f"p{i},{'ABCD'[i // 20]},{'yes' if i % 2 else 'no'}," + ",".join(["1"] * columns) for i in range(80)]
    return ("id,land,vote," + names + "\n" + "\n".join(rows) + "\n").encode()


def cases(base: Path, seed: int, size: float) -> Iterator[Case]:
    """All of them; ``size`` 1 for the whole attack."""
    rng = random.Random(seed)
    yield from json_cases(base, rng, max(int(60 * size), 1))
    yield from byte_cases(base, rng, max(int(16 * size), 1))
    yield from stored.checkpoint_cases(base, rng, max(int(120 * size), 1))
    yield from stored.kept_cases(base, rng, max(int(40 * size), 1))
    yield from stored.partition_cases(base, rng, max(int(90 * size), 1))
    yield from stored.request_cases(base, rng, max(int(60 * size), 1), damaged)
    yield from raw.feature_cases(base, rng, max(int(30 * size), 1), damaged, uses()["my.toml"])
    yield from raw.dataset_cases(base, rng, max(int(40 * size), 1), damaged)
    yield from text_cases(base)
    yield from place_cases(base)
    yield from table_cases(base, rng, max(int(20 * size), 1))
