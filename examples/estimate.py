"""How right are estimates of a score without labels? Fits four models on each dataset and compares with the truth.

python examples/estimate.py [--data-dir DIR] [--nodes 300] [--epochs 20]
"""

import argparse
import warnings

import numpy as np

import graphshift as gs
from graphshift.report.tables import print_table

parser = argparse.ArgumentParser()
parser.add_argument(
    "--data-dir", help="raw files of Twitch, PubMed and the citation networks; without it they are left out"
)
parser.add_argument("--nodes", type=int, default=300, help="of the built-in data")
parser.add_argument("--epochs", type=int, default=20)
given = parser.parse_args()

datasets = [gs.load(name, nodes=given.nodes) for name in ("planted-structure", "planted")]
if given.data_dir:
    datasets += [gs.load(name, data_dir=given.data_dir) for name in ("pubmed-temporal", "citation", "twitch")]
rows = []
for data in datasets:
    found = []
    models = [gs.ERM("gcn"), gs.ERM("sage"), gs.EERM("gcn", explorer="random")]
    for model in (*(model.set_params(epochs=given.epochs) for model in models), gs.Logistic()):
        model.fit(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gs.GraphshiftWarning)
            estimates = gs.estimate_score(model, data.tests, data.val)
        scores = model.score(data.tests)
        found += [(one, scores[name]) for name, one in estimates.items()]
    answered = [(one, truth) for one, truth in found if one.expected is not None]
    errors = 100 * np.array([one.expected - truth for one, truth in answered])
    plain = 100 * np.array([one.held_out - truth for one, truth in answered])
    inside = [one.low <= truth <= one.high for one, truth in answered]
    row = [data.name, len(found), len(found) - len(answered)]
    if answered:
        row += [
            f"{abs(plain).mean():.1f}",
            f"{abs(errors).mean():.1f}",
            f"{errors.mean():+.1f}",
            f"{np.mean(inside):.0%}",
        ]
    else:
        row += ["-"] * 4
    rows.append(row)
columns = ["dataset", "pairs", "refused", "error of validation", "error of the estimate", "bias", "inside the interval"]
print_table("Estimates of the score without labels, in points", columns, rows)
