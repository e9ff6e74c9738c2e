"""Your own tables: write two small CSV files, train ERM and EERM on them, predict on a new table."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import graphshift as gs
from graphshift.datasets.own import from_tables

# The shift: how often the newspaper agrees with the vote. Age relates to the vote in the same way everywhere.
PAPER_TELLS = {"DE": 0.9, "AT": 0.8, "FR": 0.6, "ES": 0.3, "PT": 0.1, "IT": 0.2}


def make_tables(folder, countries, seed, people=150):
    """Writes nodes.csv (people, their age, newspaper and vote) and edges.csv (who knows whom)."""
    rng = np.random.default_rng(seed)
    tables = []
    for country in countries:
        vote = rng.choice(["north", "south"], people)
        own = np.where(vote == "north", "Herald", "Courier")
        paper = np.where(rng.random(people) < PAPER_TELLS[country], own, rng.choice(["Herald", "Courier"], people))
        age = rng.normal(45, 12, people).round(1) + 12 * (vote == "north")
        ids = [f"{country}-{i}" for i in range(people)]
        tables.append(pd.DataFrame({"id": ids, "country": country, "age": age, "paper": paper, "vote": vote}))
    nodes = pd.concat(tables, ignore_index=True)
    # People know people of their own country, more often those with the same vote.
    one, other = rng.integers(0, len(nodes), (2, 60 * len(nodes)))
    country, vote, ids = (nodes[column].to_numpy() for column in ("country", "vote", "id"))
    chance = np.where(vote[one] == vote[other], 0.3, 0.1)
    met = (country[one] == country[other]) & (one < other) & (rng.random(len(one)) < chance)
    edges = pd.DataFrame({"source": ids[one[met]], "target": ids[other[met]]}).drop_duplicates()
    # As in real tables, some ages and votes are missing.
    nodes.loc[rng.random(len(nodes)) < 0.05, "age"] = None
    nodes.loc[rng.random(len(nodes)) < 0.10, "vote"] = None
    folder.mkdir()
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)


with tempfile.TemporaryDirectory() as name:
    old, new, saved = (Path(name) / part for part in ("old", "new", "model"))
    make_tables(old, ["DE", "AT", "FR", "ES", "PT"], seed=0)
    data = from_tables(
        old / "nodes.csv",
        old / "edges.csv",
        label="vote",
        environments="country",
        train=["DE", "AT"],
        val=["FR"],
        tests=["ES", "PT"],
    )
    preparation = data.facts["preparation"]
    print(data)
    print("features:", ", ".join(preparation.feature_names))

    for model in (gs.ERM(epochs=100), gs.EERM(epochs=100, views=3, edits_per_node=2, beta=1.0)):
        model.fit(data)
        scores = model.score(data.tests)
        print(f"{type(model).__name__:5s} " + "  ".join(f"{name} {value:.2f}" for name, value in scores.items()))

    # The preparation is saved with the model: together they take raw tables.
    model.save(saved)

    # A new country: one newspaper is unknown to training, and no vote is known.
    make_tables(new, ["IT"], seed=1)
    people = pd.read_csv(new / "nodes.csv").drop(columns="vote")
    people.loc[:19, "paper"] = "Gazette"
    people.to_csv(new / "nodes.csv", index=False)

    model = gs.load_model(saved)
    graph = model.prepare(new / "nodes.csv", new / "edges.csv", name="IT")
    print(model.predict_frame(graph).head(3).round(3).to_string(index=False))
