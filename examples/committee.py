"""Average one model of every arm of a finished study: an option if validation cannot separate the arms.

python examples/committee.py                                               # a small study of its own
python examples/committee.py results/twitch-gcn/wide --data-dir DIR --out committee.json
"""

import argparse
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev

import graphshift as gs
from graphshift.core.ledger import Ledger
from graphshift.estimators import recorded_estimator
from graphshift.studies import Plan, Record, Summary, compare, crossed_arms, rows_of, run_study

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("study", nargs="?", type=Path, help="a study's folder, of `graphshift compare` or `reproduce`")
options.add_argument("--data-dir", help="where the raw files of the study's dataset are")
options.add_argument("--out", type=Path, help="write the scores there as JSON")
given = options.parse_args()
if given.out is not None and given.out.exists():
    options.error(f"--out: {given.out} exists; choose another name.")

if given.study is None:
    given.study = Path("committee-study")
    arms = crossed_arms(["erm", "mixup", "coral"], ["gcn", "sage"], [], common={"epochs": 30})
    run_study(Plan("planted", arms, range(2), {"nodes": 200}, trials=2), given.study, workers=0)

summary = Summary.from_json(json.loads((given.study / "summary.json").read_text()))
plan = json.loads((given.study / "plan.json").read_text())
complete = {arm["name"]: arm["complete"] for arm in plan["arms"]}
chosen = {arm.arm: arm.chosen for arm in summary.of_rule("val") if arm.arm in complete}
chosen = {name: tuned for name, tuned in chosen.items() if tuned is not None}  # an arm whose trials failed has no seat
folder = {"data_dir": given.data_dir} if given.data_dir else {}

rows = []
for data_seed, seed in product(summary.data_seeds or [None], summary.seeds):
    drawn = {} if data_seed is None else {"seed": data_seed}
    data = gs.load(summary.dataset, **summary.options, **folder, **drawn)
    members = [
        recorded_estimator({**complete[name], **tuned, "seed": seed}).fit(data.train, data.val)
        for name, tuned in chosen.items()
    ]
    committee = gs.Ensemble(members)
    val, tests = fmean(committee.score(data.val).values()), committee.score(data.tests)
    made_from = plan["data"]["data_seed"] if data_seed is None else data_seed
    rows.append({"data_seed": made_from, "seed": seed, "val": val, "tests": tests})
    print(
        f"seed {seed}: {len(members)} members, validation {100 * val:.2f}, mean test {100 * fmean(tests.values()):.2f}"
    )

for name, values in {
    "validation": [row["val"] for row in rows],
    "mean test": [fmean(row["tests"].values()) for row in rows],
    "worst test": [min(row["tests"].values()) for row in rows],
}.items():
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    print(f"{name} ({summary.metric}, %): {100 * fmean(values):.1f}{spread}")
best = max(summary.of_rule("val"), key=lambda arm: arm.val.mean)
print(
    f"best of the study on validation: {best.arm}, {100 * best.val.mean:.2f} there and "
    f"{100 * best.mean_test.mean:.2f} on the tests"
)
scored = rows_of(list(Ledger(Record, given.study / "results.jsonl").records.values()), "val")
own = {(row["data_seed"], row["seed"]): row for row in rows}
first = summary.arms[0].arm
committee_rows = [
    replace(row, arm="the committee", val=own[row.seeds]["val"], tests=own[row.seeds]["tests"])
    for row in scored
    if row.arm == first
]
for other in dict.fromkeys(arm.arm for arm in summary.arms if arm.arm in (first, f"{first}, × 5")):
    print(compare(scored + committee_rows, "the committee", other).sentence())
if given.out is not None:
    about = {"study": given.study.name, "dataset": summary.dataset, "metric": summary.metric}
    given.out.write_text(json.dumps(about | {"arms": list(chosen), "runs": rows}, indent=1) + "\n")
