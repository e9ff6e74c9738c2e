"""``graphshift recommend``: which model to use on your data."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from graphshift.cli.compare import resumable, toml_study
from graphshift.cli.flags import flags
from graphshift.cli.options import (
    Address,
    Committee,
    DataDir,
    Dataset,
    EngineName,
    Force,
    Json,
    Options,
    Threads,
    Workers,
    dataset_options,
)

if TYPE_CHECKING:
    from graphshift.studies.recommending import Recommendation

#: What a recommendation is about: a TOML file's own choice of these is ignored.
_COMPARED = {"method": "", "seed": "", "selection": ""}


def recommend(
    dataset: Dataset,
    *,
    budget: Annotated[str, Option(metavar="TIME", help="how long it may take: 90s, 20m, 2h")] = "20m",
    target: Annotated[
        str | None,
        Option(metavar="tests|NODES.csv,EDGES.csv", help="unlabelled graphs to choose for", show_default="data's own"),
    ] = None,
    committee: Committee = False,
    misleading_edges: Annotated[
        bool, Option("--misleading-edges", help="also answer for graphs whose edges may become misleading")
    ] = False,
    option: Options = None,
    data_dir: DataDir = None,
    workers: Workers = None,
    threads_per_worker: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[Path | None, Option(metavar="DIR", help="where to write", show_default="recommend/DATASET")] = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Compare simple models, ERM and EERM on your data in the time you give, and recommend one, with the evidence.

    Candidates are compared on validation and on training environments that are left out. With an unlabelled target,
    what is expected on it counts too. Test labels are never used.
    """
    from graphshift.core.storage import write_json
    from graphshift.report.study_recommendation import recommendation_blocks
    from graphshift.report.study_report import write_report
    from graphshift.studies import Engine
    from graphshift.studies.budget import seconds_of
    from graphshift.studies.candidates import unused_by_all_arms
    from graphshift.studies.recommending import recommend_on

    seconds = seconds_of(budget, "--budget")
    options: dict[str, Any] = {}
    common: dict[str, Any] = {}
    given = dataset
    if dataset.endswith(".toml"):
        dataset, options, common = toml_study(Path(dataset), _COMPARED)
        if unused := unused_by_all_arms(common):
            print(f"graphshift: note: {given}: {', '.join(unused)}: not used here: no arm has them.", file=sys.stderr)
        common = {name: value for name, value in common.items() if name not in unused}
    options |= dataset_options(dataset, option, data_dir)
    folder = out or Path("recommend") / str(options.get("name") or dataset)
    asked: dict[str, Any] = {"budget": seconds, "common": common, "misleading_edges": misleading_edges}
    asked |= {"target": target, "committee": committee}
    how: dict[str, Any] = {"workers": workers, "threads": threads_per_worker, "force": force, "progress": True}
    how["engine"] = Engine(engine, address)
    with resumable() as command:
        found = recommend_on(dataset, options, folder=folder, command=command, **asked, **how)
    lines = {name: fit_command(given, one.settings, option, data_dir) for name, one in found.answers.items()}
    content = found.to_json()
    for name, line in lines.items():
        content["answers"][name]["command"] = line
    write_json(folder / "recommendation.json", content)
    write_report(found.study, folder, answer=recommendation_blocks(found, lines[found.criterion]))
    if json_:
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return
    _show(found, lines, folder)


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
        elif isinstance(value, list | tuple):
            words += [flag, json.dumps(value)]
        else:
            words += [flag, str(value)]
    for one in option or []:
        words += ["-o", one]
    words += [] if data_dir is None else ["--data-dir", str(data_dir)]
    return shlex.join(words)


def _show(found: Recommendation, lines: Mapping[str, str], folder: Path) -> None:
    """One table and one paragraph, and what to type next."""
    from graphshift.report.study_recommendation import candidate_table, short_table
    from graphshift.report.tables import print_table
    from graphshift.studies.reasons import paragraph

    table = short_table(candidate_table(found))
    print_table(table.title, table.columns, table.rows, note=table.note)
    print(paragraph(found))
    for name, line in lines.items():
        adapted = f"  (then predict with --adapt {found.adapt})" if name == found.criterion and found.adapt else ""
        print(f"  {line}{adapted}")
    print(f"everything about this comparison: {folder / 'report.html'}")
