"""The files that are attacked: tables, runs, models, ensembles, checkpoints and studies, all tiny."""

from __future__ import annotations

import gzip
import random
import shutil
from pathlib import Path
from typing import Any

#: What every fit of the attack has: tiny, and a checkpoint after every epoch.
SMALL = ("--epochs", 3, "--hidden", 4, "--checkpoint-every", 0, "--json")

TOML = """
method = "erm"
backbone = "sage"

[data]
nodes = "nodes.csv"
edges = "edges.csv"
label = "vote"
environments = "land"
train = ["A"]
val = ["B"]
tests = ["C"]
unlabelled = ["D"]
"""


#: How a partition is made.
PARTS = ("--parts", 3, "--by", "streaming", "--json")


def make_tables(folder: Path) -> None:
    """Nodes and edges as CSV, gzip and Parquet, and the TOML file that names them."""
    import pandas as pd

    rng, lines = random.Random(0), ["id,land,vote,age,job"]
    for i in range(80):
        land, job = "ABCD"[i // 20], rng.choice(["nurse", "baker", "poet"])
        vote = "" if land == "D" else rng.choice(["yes", "no"])
        lines.append(f"p{i},{land},{vote},{rng.gauss(40, 10):.2f},{job}")
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    pairs = {(20 * (i % 4) + rng.randrange(20), 20 * (i % 4) + rng.randrange(20)) for i in range(200)}
    edges = [f"p{a},p{b}" for a, b in sorted(pairs) if a < b]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    (folder / "my.toml").write_text(TOML)
    links = ["source,target,amount,kind", *(f"{e},{rng.random():.2f},{rng.choice(['a', 'b'])}" for e in edges)]
    (folder / "links.csv").write_text("\n".join(links) + "\n")
    edged = TOML.replace("edges.csv", "links.csv").replace('"sage"', '"gine"')
    (folder / "edge.toml").write_text(edged + 'edge_features = ["amount", "kind"]\n')
    for name in ("nodes", "edges"):
        content = (folder / f"{name}.csv").read_bytes()
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(content, mtime=0))
        pd.read_csv(folder / f"{name}.csv").to_parquet(folder / f"{name}.parquet", index=False)


def interrupted_fit(folder: Path, explorer: str = "reinforce") -> None:
    """A run with a checkpoint after two of four epochs."""
    from graphshift.fitting.fit import FitRequest, fit_in_folder
    from graphshift.training.loop import Interrupted
    from graphshift.training.run import Run

    real, counted = Run.save, [0]

    def save(self: Run, *args: Any) -> None:
        real(self, *args)
        counted[0] += 1
        if counted[0] == 2:
            raise Interrupted("stopped")

    Run.save = save  # type: ignore[method-assign]
    given = {"method": "eerm", "explorer": explorer, "epochs": 4, "hidden_channels": 4, "edits_per_node": 2, "views": 2}
    try:
        fit_in_folder(FitRequest("planted", {"nodes": 60}, given), folder, checkpoint_every=0)
    except Interrupted:
        return
    finally:
        Run.save = real  # type: ignore[method-assign]


def half_partition(folder: Path) -> None:
    """Of the partition ``parts`` one that has no manifest yet, and lacks its last environment."""
    shutil.copytree(folder / "parts", folder / "half")
    (folder / "half/partition.json").unlink()
    shutil.rmtree(max((folder / "half/environments").iterdir()))


def study(folder: Path) -> None:
    """A study in this process: two arms, two trials, two seeds."""
    from graphshift.studies import Arm, Plan, run_study

    settings = {"epochs": 2, "hidden_channels": 4}
    arms = [Arm("ERM", {"method": "erm", **settings}, {"lr": [0.01, 0.1]})]
    arms.append(Arm("random", {"method": "eerm", "explorer": "random", "views": 2, **settings}, {"lr": [0.01, 0.1]}))
    options = {"nodes": 60, "environments": 4, "degree": 4.0}
    run_study(Plan("planted", arms, [0, 1], options, trials=2), folder, workers=0, threads=1)


def fresh(folder: Path, base: Path) -> Path:
    """A copy of the base for one case."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder, symlinks=True)
    return folder
