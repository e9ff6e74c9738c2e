"""Transactions by month: train on the past, test on later months, predict the newest, with a threshold for alarms."""

import numpy as np
import pandas as pd

import graphshift as gs


def make_tables(accounts=400, seed=0):
    """Accounts by the month in which they appeared; what fraud looks like drifts slowly."""
    rng = np.random.default_rng(seed)
    month = np.sort(rng.integers(1, 13, accounts))
    fraud = rng.random(accounts) < 0.3
    nodes = pd.DataFrame({"id": [f"A{i}" for i in range(accounts)], "month": month})
    nodes["amount"] = rng.lognormal(4 + 0.8 * fraud, 1).round(2)
    nodes["night"] = (rng.random(accounts) < np.where(fraud, 0.8 - 0.04 * month, 0.3)).astype(int)  # drifts
    nodes["fraud"] = np.where(fraud, "yes", "no")
    one, other = rng.integers(0, accounts, (2, 30 * accounts))
    met = (one < other) & (rng.random(len(one)) < np.where(fraud[one] == fraud[other], 0.3, 0.1))
    ids = nodes["id"].to_numpy()
    return nodes, pd.DataFrame({"source": ids[one[met]], "target": ids[other[met]]}).drop_duplicates()


nodes, edges = make_tables()
# An environment is the graph as it was at the end of a period: no model sees the future.
data = gs.from_tables(
    nodes,
    edges,
    label="fraud",
    time="month",
    train_until=6,
    val_until=8,
    test_until=[9, 10],
    target_until=12,
    metric="roc_auc",
)
model = gs.ERM(epochs=40).fit(data)
print("ROC-AUC by period:", {name: round(score, 2) for name, score in model.score(data.tests).items()})

# Find 80 % of the frauds of the validation months; the newest months have no labels yet.
(newest,) = data.target
alarms = model.predict_frame(newest, threshold="recall=0.8")
print("alarms in the newest months:", int((alarms["prediction"] == "yes").sum()), "of", len(alarms))
