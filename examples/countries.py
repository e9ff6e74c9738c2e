"""Networks of several countries: train on some, choose on another, and test on countries that nobody trained on."""

import numpy as np
import pandas as pd

import graphshift as gs

COUNTRIES = {"DE": 0.9, "AT": 0.8, "FR": 0.6, "ES": 0.4, "PT": 0.2}  # how often the newspaper tells the vote


def make_tables(people=80, seed=0):
    """People of every country, and who knows whom."""
    rng = np.random.default_rng(seed)
    tables, edges = [], []
    for country, tells in COUNTRIES.items():
        vote = rng.integers(0, 2, people)
        paper = np.where(rng.random(people) < tells, vote, rng.integers(0, 2, people))
        ids = np.array([f"{country}-{i}" for i in range(people)])
        age = rng.normal(45 + 10 * vote, 12).round(1)
        tables.append(pd.DataFrame({"id": ids, "country": country, "age": age, "paper": paper, "vote": vote}))
        one, other = rng.integers(0, people, (2, 30 * people))
        met = (one < other) & (rng.random(len(one)) < np.where(vote[one] == vote[other], 0.3, 0.1))
        edges.append(pd.DataFrame({"source": ids[one[met]], "target": ids[other[met]]}))
    return pd.concat(tables, ignore_index=True), pd.concat(edges, ignore_index=True).drop_duplicates()


nodes, edges = make_tables()
roles = {"train": ["DE", "AT"], "val": ["FR"], "tests": ["ES", "PT"]}
data = gs.from_tables(nodes, edges, label="vote", environments="country", **roles)

# Several training graphs: methods that compare environments can be tried, with the same seeds as ERM.
comparison = gs.compare(
    data, ["erm", "groupdro", "eerm", "logistic"], seeds=3, trials=0, settings={"epochs": 30}, threads=1
)
print(comparison)
