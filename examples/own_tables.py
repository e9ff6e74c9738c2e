"""Your own tables: make a small pair of CSV files, train ERM and EERM on them, and predict on a table never seen.

Run it with ``python examples/own_tables.py``; it takes a few seconds and leaves nothing behind.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import graphshift as gs
from graphshift.datasets.preparation import load_preparation
from graphshift.datasets.tables import from_tables

#: How closely the newspaper follows the vote in each country: the shift. Age means the same everywhere.
PAPER_TELLS = {"DE": 0.9, "AT": 0.8, "FR": 0.6, "ES": 0.3, "PT": 0.1, "IT": 0.2}


def make_tables(folder: Path, countries: list[str], seed: int, people: int = 150) -> None:
    """Writes nodes.csv and edges.csv: people of some countries, their age, newspaper and vote, and who knows whom."""
    rng = np.random.default_rng(seed)
    tables = []
    for country in countries:
        vote = rng.choice(["north", "south"], people)
        follows = rng.random(people) < PAPER_TELLS[country]
        paper = np.where(
            follows, np.where(vote == "north", "Herald", "Courier"), rng.choice(["Herald", "Courier"], people)
        )
        age = rng.normal(45, 12, people) + 12 * (vote == "north")
        ids = [f"{country}-{i}" for i in range(people)]
        tables.append(pd.DataFrame({"id": ids, "country": country, "age": age.round(1), "paper": paper, "vote": vote}))
    nodes = pd.concat(tables, ignore_index=True)
    # People know those of their own country, and rather those who vote as they do.
    pairs = rng.integers(0, len(nodes), (2, 60 * len(nodes)))
    country, vote = nodes["country"].to_numpy(), nodes["vote"].to_numpy()
    alike = np.where(vote[pairs[0]] == vote[pairs[1]], 0.9, 0.3)
    keep = (country[pairs[0]] == country[pairs[1]]) & (pairs[0] < pairs[1]) & (rng.random(pairs.shape[1]) < alike / 3)
    ids = nodes["id"].to_numpy()
    edges = pd.DataFrame({"source": ids[pairs[0, keep]], "target": ids[pairs[1, keep]]}).drop_duplicates()
    # Real tables have gaps: some ages are unknown, and so are some votes.
    nodes.loc[rng.random(len(nodes)) < 0.05, "age"] = None
    nodes.loc[rng.random(len(nodes)) < 0.10, "vote"] = None
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    make_tables(folder, ["DE", "AT", "FR", "ES", "PT"], seed=0)
    data = from_tables(
        folder / "nodes.csv", folder / "edges.csv", label="vote",
        environments="country", train=["DE", "AT"], val=["FR"], tests=["ES", "PT"],
    )  # fmt: skip
    print(data)
    preparation = data.facts["preparation"]
    print("features:", ", ".join(preparation.feature_names))

    for model in (gs.ERM(epochs=100), gs.EERM(epochs=100, explorers=3, edits_per_node=2, beta=1.0)):
        model.fit(data.train, val=data.val)
        scores = {name: round(score, 3) for name, score in model.score(data.tests).items()}
        print(f"{type(model).__name__} accuracy in countries that it never saw: {scores}")

    # Keep the model and the preparation in one folder: together they take raw tables.
    model.save(folder / "model")
    preparation.save(folder / "model")

    # Another country, with a newspaper that training never had, and nobody's vote is known.
    new = folder / "new"
    new.mkdir()
    make_tables(new, ["IT"], seed=1)
    nodes = pd.read_csv(new / "nodes.csv").drop(columns="vote")
    nodes.loc[:19, "paper"] = "Gazette"
    nodes.to_csv(new / "nodes.csv", index=False)

    model, preparation = gs.load_model(folder / "model"), load_preparation(folder / "model")
    environment, ids = preparation.environment(new / "nodes.csv", new / "edges.csv")
    predictions = preparation.table(ids, model.predict(environment), model.predict_proba(environment))
    print(predictions.head(3).round(3).to_string(index=False))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR")
        main()
