"""``graphshift compare``: a fair study in one command."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphshift.cli.options import DataDir, Force, Json, Options, dataset_options, pairs, read_toml, toml_dataset
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.studies import Plan

#: Settings that make arms or runs, and the options that give them.
_BY_OPTION = {
    "method": "--methods",
    "backbone": "--backbones",
    "explorer": "--explorers",
    "seed": "--seeds",
    "selection": "--selections",
}


def compare(
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="a dataset's name, or a TOML file with tables of your own")
    ],
    *,
    methods: Annotated[
        str,
        typer.Option("--methods", metavar="NAME,…", help="erm, eerm, irm, vrex, groupdro, mixup, coral, dann, srgnn"),
    ] = "erm,eerm",
    backbones: Annotated[
        str | None,
        typer.Option(
            "--backbones", metavar="NAME,…", help="the GNNs; each with every method", show_default="dataset's"
        ),
    ] = None,
    explorers: Annotated[
        str, typer.Option("--explorers", metavar="NAME,…", help="of eerm; each is an arm of its own")
    ] = "reinforce",
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="final runs of each arm", min=1)] = 5,
    data_seeds: Annotated[
        int | None, typer.Option("--data-seeds", metavar="N", help="draws of the data, each with all seeds", min=1)
    ] = None,
    tune: Annotated[
        int, typer.Option("--tune", metavar="N", help="trials of tuning for each arm; 0: none", min=0)
    ] = 24,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", help="tuning seeds that each setting is tried with", min=1)
    ] = 1,
    space: Annotated[
        Path | None,
        typer.Option("--space", metavar="FILE.toml", help="search space of your own", show_default="the paper's"),
    ] = None,
    selections: Annotated[
        str, typer.Option("--selections", metavar="RULE,…", help="rules that choose: val, explored, id_val, oracle")
    ] = "val",
    in_domain: Annotated[
        bool, typer.Option("--in-domain/--no-in-domain", help="also measure ERM trained on the tests' own labels")
    ] = True,
    adapt: Annotated[
        str | None,
        typer.Option(
            "--adapt", metavar="NAME,…", help="also score with the unlabelled tests in use: norm, prior, norm+prior"
        ),
    ] = None,
    ensemble: Annotated[
        int, typer.Option("--ensemble", metavar="N", min=1, help="also score the mean of N models that differ in seed")
    ] = 1,
    shared: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="a setting that all arms share, as epochs=100"),
    ] = None,
    option: Options = None,
    data_dir: DataDir = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", help="fits at the same time", min=1)] = 1,
    threads_per_worker: Annotated[
        int | None,
        typer.Option("--threads-per-worker", metavar="N", min=1, help="of each", show_default="cores / workers"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="where to write", show_default="studies/DATASET")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="run failed fits again")] = False,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Tune every arm with the same budget, run it with fresh seeds, and say who is ahead, in pairs, of ERM.

    The same command goes on where it was stopped. Tests choose nothing, unless you ask for the rule `oracle`.
    """
    from graphshift.studies import run_study
    from graphshift.training.loop import Interrupted

    plan = _plan(
        dataset,
        methods,
        backbones,
        explorers,
        seeds,
        data_seeds,
        tune,
        repeats,
        space,
        selections,
        in_domain,
        adapt,
        ensemble,
        shared,
        option,
        data_dir,
    )
    folder = out or Path("studies") / plan.dataset
    command = ["graphshift", *sys.argv[1:]]
    try:
        study = run_study(
            plan,
            folder,
            workers=workers,
            threads=threads_per_worker,
            force=force,
            retry_failed=retry_failed,
            progress=True,
            command=command,
        )
    except Interrupted as error:
        again = shlex.join(word for word in command if word != "--force")  # which would start anew
        raise Interrupted(f"{error} Go on with: {again}") from None
    from graphshift.core.progress import error_console
    from graphshift.report.study_report import write_report

    with error_console().status("writing tables, figures and the page …"):
        write_report(study, folder)
    failed = study.summary["failed"]
    if not study.summary["counts"]["run"]["done"]:
        raise GraphshiftError(f"{folder}: no run finished; the first failure, {failed[0]['id']}: {failed[0]['reason']}")
    if json_:
        print(json.dumps(study.summary, indent=2, ensure_ascii=False))
        return
    _show(study.summary, folder)


def _plan(
    dataset: str,
    methods: str,
    backbones: str | None,
    explorers: str,
    seeds: int,
    data_seeds: int | None,
    tune: int,
    repeats: int,
    space: Path | None,
    selections: str,
    in_domain: bool,
    adapt: str | None,
    ensemble: int,
    shared: list[str] | None,
    option: list[str] | None,
    data_dir: Path | None,
) -> Plan:
    from graphshift.backbones import BACKBONES
    from graphshift.explorers import EXPLORERS
    from graphshift.methods import METHODS
    from graphshift.studies import RULES, Plan, crossed_arms, space_from_table

    common: dict[str, Any] = {}
    options: dict[str, Any] = {}
    if dataset.endswith(".toml"):
        dataset, options, common = toml_study(Path(dataset), _BY_OPTION)
    common |= _settings(pairs(shared, "--set"), "--set: ", _BY_OPTION)
    options |= dataset_options(dataset, option, data_dir)
    chosen = _names(methods, METHODS, "--methods")
    tried = None if space is None else space_from_table(read_toml(space), chosen, where=f"{space}: ")
    if space is not None and tune == 0:
        raise GraphshiftError("--space: with --tune 0 nothing is tuned; leave one of them out.")
    named = None if backbones is None else _names(backbones, BACKBONES, "--backbones")
    arms = crossed_arms(chosen, named, _names(explorers, EXPLORERS, "--explorers"), common=common, space=tried)
    return Plan(
        dataset,
        arms,
        range(seeds),
        options,
        None if data_seeds is None else range(data_seeds),
        trials=tune,
        repeats=repeats,
        selections=_names(selections, RULES, "--selections"),
        in_domain=in_domain,
        adapt=[] if adapt is None else [way.strip() for way in adapt.split(",")],
        ensemble=ensemble,
    )


def toml_study(path: Path, instead: Mapping[str, str]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A fit's TOML file: its data, and those of its settings that all arms can share.

    Args:
        path: of the file.
        instead: the settings that make arms or runs, and what to give for them; what is not to be given is empty.
    """
    content = read_toml(path)
    name, options = toml_dataset(content, path)
    idle = [setting for setting in content if setting in instead]
    for setting in idle:
        del content[setting]
    if idle:
        flags = ", ".join(instead[setting] for setting in idle if instead[setting])
        advice = f"; give {flags}" if flags else ": that is what is compared"
        print(f"graphshift: note: {path}: {', '.join(idle)}: not used here{advice}.", file=sys.stderr)
    return name, options, _settings(content, f"{path}: ", instead)


def _settings(given: dict[str, Any], where: str, instead: Mapping[str, str]) -> dict[str, Any]:
    """Settings by their full names; those that make arms are refused. Their values are checked with the arms."""
    from graphshift.core.hparams import refuse_renamed
    from graphshift.core.registry import expected_one_of
    from graphshift.estimators.settings import setting_names, short_names

    refuse_renamed(given, where=where)
    found = {short_names().get(name, name): value for name, value in given.items()}
    for name in found:
        if name in instead:
            raise GraphshiftError(f"{where}{name} differs between arms or runs; give {instead[name]}.")
        if name not in setting_names():
            known = [setting for setting in setting_names() if setting not in instead]
            raise GraphshiftError(f"{where}{name} is not a setting; {expected_one_of(name, known)}")
    return found


def _names(text: str, known: Any, flag: str) -> list[str]:
    found = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in found if name not in known]
    if wrong or not found:
        raise GraphshiftError(f"{flag} is {text!r}; expected some of {', '.join(known)}, with commas between.")
    return list(dict.fromkeys(found))


def _show(summary: dict[str, Any], folder: Path) -> None:
    from graphshift.report.study_tables import main_tables
    from graphshift.report.tables import print_table

    for table in main_tables(summary):
        print_table(table.title, table.columns, table.rows, note=table.note)
    for finding in summary["findings"]:
        print(f"  {finding['text']}")
    failed = summary["failed"]
    if failed:
        print(
            f"  {len(failed)} fit{'s' * (len(failed) > 1)} failed; the first: {failed[0]['id']}: {failed[0]['reason']}"
        )
        print("  Run the same command with --retry-failed to try again.")
    print(f"all tables (environments, chosen settings, cost), figures and every result: {folder}")
    print(f"the same as one page, for a browser: {folder / 'report.html'}")
