"""``graphshift compare``: a fair study in one command."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from graphshift.cli import options as opts
from graphshift.cli.options import pairs, read_toml
from graphshift.core.declared import declared_names
from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of

if TYPE_CHECKING:
    from graphshift.studies import Arm, Summary

#: Settings that make arms or runs, and the options that give them.
_BY_OPTION = {name: f"--{name}s" for name in ("method", "backbone", "explorer", "seed", "selection")}


def _listed(what: str, package: str, **about: Any) -> Any:
    """An option that takes several names, with what there are in its help; nothing is imported for that."""
    return Option(metavar="NAME,…", help=f"{what}: {', '.join(declared_names(package))}", **about)


_Methods = Annotated[str, _listed("methods to compare", "graphshift.methods")]
_Backbones = Annotated[
    str | None, _listed("GNNs, each with every method", "graphshift.backbones", show_default="dataset's")
]
_Explorers = Annotated[str, _listed("explorers of eerm, each an arm of its own", "graphshift.explorers")]
_RULES = [name for name in declared_names("graphshift.training.selection") if name != "last"]  # which has no score
_ADAPT = "also score with the unlabelled test graphs in use: norm, prior, norm+prior, tent, hops"


def compare(
    dataset: opts.Dataset,
    *,
    methods: _Methods = "erm,eerm,majority,logistic,forest",
    backbones: _Backbones = None,
    explorers: _Explorers = "reinforce",
    seeds: Annotated[int, Option(metavar="N", help="final runs of each arm", min=1)] = 5,
    data_seeds: Annotated[
        int | None, Option(metavar="N", help="data seeds (datasets made from a seed), each with all seeds", min=1)
    ] = None,
    tune: Annotated[int, Option(metavar="N", help="tuning trials of each arm; 0: no tuning", min=0)] = 24,
    repeats: Annotated[int, Option(metavar="N", help="seeds that each setting is tried with in tuning", min=1)] = 1,
    space: Annotated[
        Path | None, Option(metavar="FILE.toml", help="your own search space", show_default="the paper's")
    ] = None,
    selections: Annotated[
        str, Option(metavar="RULE,…", help=f"rules that choose epoch and setting: {', '.join(_RULES)}")
    ] = "val",
    in_domain: Annotated[bool, Option(help="also measure ERM trained on the test graphs' own labels")] = True,
    adapt: Annotated[str | None, Option(metavar="NAME,…", help=_ADAPT)] = None,
    ensemble: Annotated[
        int, Option(metavar="N", min=1, help="also score the mean of N models that differ in seed")
    ] = 1,
    committee: opts.Committee = False,
    shared: Annotated[
        list[str] | None, Option("--set", metavar="NAME=VALUE", help="a setting that all arms share, as epochs=100")
    ] = None,
    option: opts.Options = None,
    data_dir: opts.DataDir = None,
    workers: opts.Workers = None,
    threads_per_worker: opts.Threads = None,
    engine: opts.EngineName = "local",
    address: opts.Address = None,
    out: Annotated[Path | None, Option(metavar="DIR", help="where to write", show_default="studies/DATASET")] = None,
    retry_failed: opts.RetryFailed = False,
    log: opts.Log = None,
    force: opts.Force = False,
    json_: opts.Json = False,
) -> None:
    """Tune every arm with the same budget, run it with fresh seeds, and compare it with ERM in pairs.

    The same command resumes a study that was stopped. Test labels are never used for selection, unless you ask for the
    rule `oracle`.
    """
    from graphshift.core.progress import error_console
    from graphshift.report.study_report import write_report
    from graphshift.studies import Engine, Plan, rule_names, run_study
    from graphshift.studies.plan import COMMITTEE

    common: dict[str, Any] = {}
    options: dict[str, Any] = {}
    if dataset.endswith(".toml"):
        dataset, options, common = toml_study(Path(dataset), _BY_OPTION)
    common |= _settings(pairs(shared, "--set"), "--set: ", _BY_OPTION)
    arms = [*_arms(methods, backbones, explorers, common, space), *([COMMITTEE] if committee else [])]
    if space is not None and tune == 0:
        raise GraphshiftError("--space: with --tune 0 nothing is tuned; leave one of them out.")
    options |= opts.dataset_options(dataset, option, data_dir)
    drawn = None if data_seeds is None else range(data_seeds)
    rules = _names(selections, rule_names(), "--selections")
    ways = [] if adapt is None else [way.strip() for way in adapt.split(",")]
    scored: dict[str, Any] = {"selections": rules, "in_domain": in_domain, "adapt": ways, "ensemble": ensemble}
    plan = Plan(dataset, arms, range(seeds), options, drawn, trials=tune, repeats=repeats, resample=True, **scored)
    folder = out or Path("studies") / plan.title
    how: dict[str, Any] = {"workers": workers, "threads": threads_per_worker, "retry_failed": retry_failed}
    how |= {"log": log or (), "engine": Engine(engine, address)}
    with resumable() as command:
        study = run_study(plan, folder, force=force, progress=True, command=command, **how)
    with error_console().status("writing tables, figures and the page …"):
        write_report(study, folder)
    failed = study.summary.failed
    if not study.summary.counts["run"].done:
        raise GraphshiftError(f"{folder}: no run finished; the first failure, {failed[0].id}: {failed[0].reason}")
    if json_:
        print(json.dumps(study.summary.to_json(), indent=2, ensure_ascii=False))
        return
    _show(study.summary, folder)


@contextmanager
def resumable() -> Iterator[list[str]]:
    """For the length of a study: yields the command that runs it, and an interruption says which one resumes it."""
    from graphshift.training.loop import Interrupted

    command = ["graphshift", *sys.argv[1:]]
    try:
        yield command
    except Interrupted as error:
        again = shlex.join(word for word in command if word != "--force")  # which would start anew
        raise Interrupted(f"{error} Resume with: {again}") from None


def _arms(
    methods: str, backbones: str | None, explorers: str, common: Mapping[str, Any], space: Path | None
) -> list[Arm]:
    from graphshift.backbones import BACKBONES
    from graphshift.explorers import EXPLORERS
    from graphshift.methods import METHODS
    from graphshift.studies import crossed_arms, space_from_table

    chosen = _names(methods, METHODS, "--methods")
    searched = None if space is None else space_from_table(read_toml(space), chosen, where=f"{space}: ")
    named = None if backbones is None else _names(backbones, BACKBONES, "--backbones")
    return crossed_arms(chosen, named, _names(explorers, EXPLORERS, "--explorers"), common=common, space=searched)


def toml_study(path: Path, instead: Mapping[str, str]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A fit's TOML file: its data, and those of its settings that all arms can share.

    Args:
        path: of the file.
        instead: the settings that make arms or runs, and what to give for them; what is not to be given is empty.
    """
    content = read_toml(path)
    name, options = opts.toml_dataset(content, path)
    unused = [setting for setting in content if setting in instead]
    for setting in unused:
        del content[setting]
    if unused:
        flags = ", ".join(instead[setting] for setting in unused if instead[setting])
        advice = f"; give {flags}" if flags else ": the comparison chooses"
        print(f"graphshift: note: {path}: {', '.join(unused)}: not used here{advice}.", file=sys.stderr)
    return name, options, _settings(content, f"{path}: ", instead)


def _settings(given: dict[str, Any], where: str, instead: Mapping[str, str]) -> dict[str, Any]:
    """Settings by their full names, each checked on its own; those that make arms are refused."""
    from graphshift.core.hparams import refuse_renamed
    from graphshift.estimators.settings import make_estimator, methods_with, setting_names, short_names

    refuse_renamed(given, where=where)
    found = {short_names().get(name, name): value for name, value in given.items()}
    known = [name for name in setting_names() if name not in instead]
    for name, value in found.items():
        if name in instead:
            raise GraphshiftError(f"{where}{name} differs between arms or runs; give {instead[name]}.")
        if name not in known:
            raise GraphshiftError(f"{where}{name} is not a setting; {expected_one_of(name, known)}")
        make_estimator({"method": methods_with(name)[0], name: value}, where=where)
    return found


def _names(text: str, known: Collection[str], flag: str) -> list[str]:
    found = [name.strip() for name in text.split(",") if name.strip()]
    wrong = next((name for name in found if name not in known), None)
    if wrong is not None or not found:
        given = f"has {wrong!r}" if wrong else "is empty"
        raise GraphshiftError(f"{flag} {given}; {expected_one_of(wrong, list(known))} Several with commas between.")
    return list(dict.fromkeys(found))


def _show(summary: Summary, folder: Path) -> None:
    """One paragraph and one table; the rest is in the folder."""
    from graphshift.report.study_tables import main_tables
    from graphshift.report.study_words import main_rule_of, summary_paragraph
    from graphshift.report.tables import print_table

    rules = [entry.rule for entry in summary.selections]
    table = main_tables(summary)[rules.index(main_rule_of(summary))]
    print_table(table.title, table.columns, table.rows, note=table.note)
    print(summary_paragraph(summary))
    if summary.failed:
        print("Run the same command with --retry-failed to try again.")
    others = f" (also by {', '.join(rules[1:])})" if len(rules) > 1 else ""
    print(f"all tables{others}, figures and every result: {folder}")
    print(f"the same as one page, for a browser: {folder / 'report.html'}")
