"""``graphshift recommend``: which method, backbone and explorer to use on your data."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from graphshift.cli.compare import run_or_resume, toml_study
from graphshift.cli.flags import flags
from graphshift.cli.options import DataDir, Dataset, Force, Json, Options, Workers, dataset_options
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.studies.recommending import Recommendation, Size
    from graphshift.studies.running import Study

#: What a recommendation is about: a TOML file's own choice of these is ignored.
_COMPARED = {"method": "", "seed": "", "selection": ""}

#: The longest budget, in seconds: a week. What runs for longer should be planned, not guessed.
_MOST = 7 * 24 * 3600.0

_UNITS = {"": 60.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def recommend(
    dataset: Dataset,
    *,
    budget: Annotated[str, Option(metavar="TIME", help="how long it may take: 90s, 20m, 2h")] = "20m",
    option: Options = None,
    data_dir: DataDir = None,
    workers: Workers = 1,
    out: Annotated[Path | None, Option(metavar="DIR", help="where to write", show_default="recommend/DATASET")] = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Compare ERM and EERM's explorers on your data in the time you give, and recommend one, with the evidence.

    Arms are compared on the validation environments. Test scores are shown; test labels are never used for selection.
    """
    from graphshift.report.study_report import write_report
    from graphshift.studies import recommending
    from graphshift.studies.pool import cores
    from graphshift.studies.resolved import load_data, resolve

    seconds = _seconds(budget)
    options: dict[str, Any] = {}
    common: dict[str, Any] = {}
    given = dataset
    if dataset.endswith(".toml"):
        dataset, options, common = toml_study(Path(dataset), _COMPARED)
        if unused := recommending.unused_by_all_arms(common):
            print(f"graphshift: note: {given}: {', '.join(unused)}: not used here: no arm has them.", file=sys.stderr)
        common = {name: value for name, value in common.items() if name not in unused}
    options |= dataset_options(dataset, option, data_dir)
    folder = out or Path("recommend") / dataset
    data = load_data(dataset, options, None)
    size = None if force else _kept_size(folder)
    if size is None:
        trial = resolve(recommending.plan_of(dataset, options, data, recommending.Size(1, 0, 1), common), data)
        print("timing a few epochs of every arm …", file=sys.stderr)
        epochs = trial.settings(recommending.candidates(data, common)[0])["epochs"]
        times = recommending.seconds_an_epoch(trial, data, max(1, cores() // workers))
        size = recommending.chosen_size(times, epochs, seconds, workers, 2 if data.val else 1)
    else:
        kept = f"{folder} holds a comparison: its size is kept, whatever the --budget; --force starts anew"
        print(kept, file=sys.stderr)
    plan = recommending.plan_of(dataset, options, data, size, common)
    each = f"{size.trials} trials and {size.seeds} seeds each, {size.epochs} epochs a fit"
    print(f"{len(plan.arms)} arms, {each}", file=sys.stderr)
    study = run_or_resume(plan, folder, workers, force)
    write_report(study, folder)
    found = {name: recommending.recommend(study, name) for name in recommending.criteria(study)}
    lines = {name: fit_command(given, one.settings, option, data_dir) for name, one in found.items()}
    if json_:
        note = {
            name: {"arm": one.arm, "settings": dict(one.settings), "reason": one.reason, "command": lines[name]}
            for name, one in found.items()
        }
        print(json.dumps(note, indent=2, ensure_ascii=False))
        return
    _show(study, found, size, lines, folder)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|)", text.strip())
    if not found or not float(found[1]):
        raise GraphshiftError(f"--budget is {text!r:.80}; expected a time, as 90s, 20m or 2h.")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > _MOST:
        raise GraphshiftError(
            f"--budget is {text!r:.80}; expected at most {_MOST / 3600:.0f}h. For more, plan a study yourself: "
            "graphshift compare says what it runs, and goes on where it was stopped."
        )
    return seconds


def _kept_size(folder: Path) -> Size | None:
    """That of the comparison that is there: timing might choose another size, and the study could not be resumed."""
    from graphshift.core.parsing import checked_note
    from graphshift.core.storage import read_json
    from graphshift.studies.notes import PlanNote
    from graphshift.studies.recommending import Size

    if not (folder / "plan.json").is_file():
        return None
    plan = checked_note(PlanNote, read_json(folder / "plan.json"), where=str(folder / "plan.json"))
    epochs = plan.arms[0].settings.get("epochs")
    if not isinstance(epochs, int) or not 0 < epochs < 2**31:
        raise GraphshiftError(f"{folder}: holds another study; choose another --out, or replace it (--force).")
    return Size(len(plan.seeds), plan.trials, epochs)


def fit_command(dataset: str, settings: Any, option: list[str] | None, data_dir: Path | None) -> str:
    """What to type next."""
    words = ["graphshift", "fit", dataset]
    for name, value in settings.items():
        flag = flags()[name].spelled if name in flags() else f"--{name}"
        if isinstance(value, Mapping):
            for key, one in value.items():
                words += [flag, f"{key}={json.dumps(one) if not isinstance(one, str) else one}"]
        elif isinstance(value, bool):
            words += [flag] if value else []
        else:
            words += [flag, str(value)]
    for one in option or []:
        words += ["-o", one]
    words += [] if data_dir is None else ["--data-dir", str(data_dir)]
    return shlex.join(words)


def _show(
    study: Study, found: Mapping[str, Recommendation], size: Size, lines: Mapping[str, str], folder: Path
) -> None:
    from graphshift.data.metrics import METRICS
    from graphshift.report.study_tables import show_difference, show_spread
    from graphshift.report.tables import print_table
    from graphshift.studies.recommending import CRITERIA, RULES, differences
    from graphshift.studies.statistics import spread

    summary, metric, simplest = study.summary, study.summary.metric, study.plan.arms[0].name
    heads = {"val": "validation", "adversarial_val": "after adversarial edits"}
    tuned = f"{size.trials} trials of tuning for each" if size.trials else "no tuning: it needs a larger --budget"
    for name, one in found.items():
        against, rows = differences(study, name), study.rows(RULES[name])
        table = []
        for arm in summary.of_rule(RULES[name]):
            own = spread([getattr(row, name) for row in rows if row.arm == arm.arm])
            shown = arm.arm == simplest or arm.arm in against
            cells = [arm.arm, show_spread(own, metric) if shown else "–"]
            cells.append(show_difference(against.get(arm.arm), metric)[0])
            table.append([*cells, show_spread(arm.mean_test, metric), show_spread(arm.worst_test, metric)])
        note = (
            f"{size.seeds} seeds, ± standard deviation; {tuned}. Intervals are of single comparisons; what is "
            f"recommended is significant after a correction for {len(against)} of them (Holm). "
            "Test labels were not used for selection."
        )
        title = f"{summary.dataset}: {METRICS.find(metric).title}, epoch and setting chosen by {RULES[name]}"
        columns = [
            "arm",
            heads.get(name, "held-out training nodes"),
            f"against {simplest} (95 %)",
            "mean test",
            "worst test",
        ]
        print_table(title, columns, table, note=note)
        print(f"{CRITERIA[name]}, use {one.reason}.")
        print(f"  {lines[name]}\n")
    print(f"everything about this comparison: {folder / 'report.html'}")
