"""The page of a study: what it found, how that was found, and where it comes from, in one file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphshift.data.metrics import METRICS
from graphshift.estimators.settings import has_setting
from graphshift.report.page import Block, Code, Details, Facts, Figure, Points, Section, Table, Text, page
from graphshift.report.study_tables import (
    StudyTable,
    choosing_head,
    main_tables,
    rule_label,
    show_budget,
    show_settings,
    shows_majority,
    study_tables,
    test_heads,
)
from graphshift.report.study_words import headline, main_rule_of
from graphshift.studies import NOT_ALLOWED, Arm, Study, Summary
from graphshift.studies.resolved import ResolvedPlan
from graphshift.training.selection import SELECTIONS


def study_page(study: Study, figures: Path, *, answer: Sequence[Block] = ()) -> str:
    """The page as HTML that needs no other file.

    Args:
        study: a finished one.
        figures: the folder that ``draw_figures`` drew into.
        answer: what stands at the head of the page, such as a recommendation; by default what the study found.
    """
    summary, plan = study.summary, study.plan
    sections = [
        Section("Scores", [*_scores(summary), *_findings(summary), *_skipped(summary)]),
        Section("What was compared", _compared(summary, plan)),
        Section("Test environments", _environments(summary, figures)),
        Section("Runs", _runs(summary, figures)),
        Section("Tuning and settings", _settings(summary, plan, figures)),
        Section("Cost", [Table(study_tables(summary)[-1])]),
        Section("Failures", _failures(summary)),
        Section("How to read it", [Facts(_reading(summary))]),
        Section("Where it comes from", _provenance(summary)),
        Section("Run it again", _again(summary)),
    ]
    title = f"{summary.dataset}: {_count(len(plan.arms), 'arm')} compared"
    lead: list[Block] = [Text(headline(summary), lead=True, strong=summary.arm_names())]
    lead += [Text(note, strong=summary.arm_names()) for note in summary.notes]
    return page(title, [s for s in sections if s.blocks], lead=answer or lead, warnings=[NOT_ALLOWED])


def _findings(summary: Summary) -> list[Block]:
    """All sentences of the study, folded: the table says the same in less room."""
    blocks: list[Block] = []
    for rule in _main_first(summary):
        label = rule_label(summary, rule)
        own = [f.text.removeprefix(f"By {label}: ") for f in summary.findings if f.selection == rule]
        if own:
            named = f"Each arm against its baseline, chosen by {label} ({_count(len(own), 'sentence')})"
            blocks.append(Details(named, [Points(own, strong=summary.arm_names())]))
    return blocks


def _skipped(summary: Summary) -> list[Block]:
    """What was planned and cannot be."""
    rows = [[one.what, one.reason] for one in summary.skipped]
    return [Table(StudyTable("skipped", ["what", "why"], rows), words=True)] if rows else []


def _main_first(summary: Summary) -> list[str]:
    first = main_rule_of(summary)
    return [first, *(entry.rule for entry in summary.selections if entry.rule != first)]


def _compared(summary: Summary, plan: ResolvedPlan) -> list[Block]:
    counts, tests, better = summary.counts, summary.tests, "higher" if summary.higher_is_better else "lower"
    arms = [arm.name + (f" (against {other.name})" if (other := plan.baseline(arm)) else "") for arm in plan.arms]
    options = f" with {show_settings(summary.options)}" if summary.options else ""
    pairs = {
        "Dataset": summary.dataset + options,
        "Metric": f"{METRICS.find(summary.metric).title}; {better} is better",
        "Arms": "; ".join(arms),
        "Test environments": f"{len(tests)}: {', '.join(tests)}" if tests else "none",
        "Seeds": f"{len(summary.seeds)}: {_list(summary.seeds)}",
    }
    if summary.data_seeds:
        joined = "each with all seeds" if plan.crossed else "each with one seed"
        pairs["Data seeds"] = f"{len(summary.data_seeds)}: {_list(summary.data_seeds)}, {joined}"
    apart = f"on seeds that the runs do not use ({_list(summary.tuning_seeds)})" if summary.tuning else ""
    pairs["Tuning"] = f"{show_budget(summary)} that is tuned, {apart}" if apart else "none"
    for entry in summary.selections:
        pairs[f"Rule {entry.rule}"] = SELECTIONS[entry.rule].help + (f" ({entry.note})" if entry.note else "")
    words = {"trial": "trial", "run": "final run", "left_out": "fit without an environment", "limit": "in-domain limit"}
    fits = {word: counts[kind].done + counts[kind].failed for kind, word in words.items() if kind in counts}
    done = [_count(number, word) for word, number in fits.items() if number]
    pairs["Fits"] = f"{', '.join(done)}; {len(summary.failed)} failed"
    return [Facts(pairs), Details("Sizes of the graphs", [Table(_sizes(plan))])]


def _sizes(plan: ResolvedPlan) -> StudyTable:
    columns = ("nodes", "edges", "features", "counted")
    rows = [
        [shape["name"], role, *(f"{shape[column]:,}" for column in columns)]
        for role, name in (("training", "train"), ("validation", "val"), ("test", "tests"))
        for shape in plan.shapes[name]
    ]
    made = plan.own_data_seed
    note = "counted: nodes with a label that training or score looks at."
    note += f" The data are made from seed {made}." if made is not None and not plan.data_seeds else ""
    return StudyTable(f"{plan.title}: graphs", ["environment", "for", *columns], rows, note)


def _scores(summary: Summary) -> list[Block]:
    rules = [entry.rule for entry in summary.selections]
    tables = main_tables(summary)  # one for each rule, and the last has the rules side by side
    by_rule = dict(zip(rules, tables, strict=False))

    def blocks(rule: str) -> list[Block]:
        table, best = by_rule[rule], _best(summary, rule)
        score = [*test_heads(summary), "score"][0]
        said = f"{table.note} In green: the best {score}, where it is significantly above its baseline."
        return [Table(replace(table, note=said) if best else table, best=best)]

    main, *others = _by_rule(summary, blocks)
    return [main, *map(Table, tables[len(rules) :]), *others]


def _best(summary: Summary, rule: str) -> list[int]:
    """The row of the arm with the best mean test score, if the rule is allowed and the lead is significant."""
    arms, sign = summary.of_rule(rule), 1 if summary.higher_is_better else -1
    shown = [arm.mean_test if summary.tests else arm.choosing or arm.val for arm in arms]
    scored = {i: sign * one.mean for i, one in enumerate(shown) if one.mean is not None}
    if not scored or not arms[0].allowed:
        return []
    best = max(scored, key=lambda i: scored[i])
    difference = arms[best].difference.main
    return [best] if difference and difference.low is not None and difference.low > 0 else []


def _environments(summary: Summary, figures: Path) -> list[Block]:
    if not summary.tests:
        return []
    several = len(summary.tests) > 1
    tables = study_tables(summary)[len(main_tables(summary)) :]
    by_rule = dict(zip([entry.rule for entry in summary.selections], tables, strict=False)) if several else {}

    def blocks(rule: str) -> list[Block]:
        arms = len(summary.of_rule(rule))
        shown = [Table(by_rule[rule], aside=range(arms, len(by_rule[rule].rows)))] if several else []
        caption = f"Every run on every test environment, with mean and standard deviation; {_chosen_by(summary, rule)}."
        return [*_figure(figures, f"environments-{rule}", caption), *shown]

    return _by_rule(summary, blocks)


def _runs(summary: Summary, figures: Path) -> list[Block]:
    def blocks(rule: str) -> list[Block]:
        scores = "mean and worst test score" if len(summary.tests) > 1 else "test score"
        caption = f"Every run's {scores}; {_chosen_by(summary, rule)}."
        return _figure(figures, f"seeds-{rule}", caption)

    return _by_rule(summary, blocks) or ([Text("No run finished.")] if summary.tests else [])


def _chosen_by(summary: Summary, rule: str) -> str:
    return f"epoch and setting chosen by {rule_label(summary, rule)}"


def _by_rule(summary: Summary, blocks_of: Callable[[str], list[Block]]) -> list[Block]:
    """The main rule's blocks, and those of the others folded."""
    first, *others = _main_first(summary)
    folded = [Details(f"By {rule_label(summary, rule)}", blocks) for rule in others if (blocks := blocks_of(rule))]
    return [*blocks_of(first), *folded]


def _figure(folder: Path, name: str, caption: str) -> list[Block]:
    """A figure, if it was drawn: a rule by which no run finished has none."""
    path = folder / f"{name}.svg"
    return [Figure(path, caption)] if path.exists() else []


def _settings(summary: Summary, plan: ResolvedPlan, figures: Path) -> list[Block]:
    def drawn(rule: str) -> list[Block]:
        return _figure(figures, f"tuning-{rule}", f"Every trial's score by {rule_label(summary, rule)}.")

    blocks: list[Block] = [Text("Nothing was tuned.")]
    if summary.tuning:
        blocks = [Table(study_tables(summary)[-2]), *_by_rule(summary, drawn)]
    return [*blocks, Details("Complete settings of every arm", [Table(_complete(plan), words=True)])]


def _complete(plan: ResolvedPlan) -> StudyTable:
    """Settings down, arms across; what an arm does not use is left out of its column."""
    complete = {arm.name: plan.settings(arm) for arm in plan.arms}
    rows = []
    for name in dict.fromkeys(name for settings in complete.values() for name in settings):
        cells = [_setting(plan, arm, complete[arm.name], name) for arm in plan.arms]
        if name not in ("seed", "selection") and any(cell != "–" for cell in cells):
            rows.append([name, *cells])
    note = "In braces: the values that tuning chose from. –: none, or not used by the arm."
    return StudyTable("settings by arm", ["setting", *(arm.name for arm in plan.arms)], rows, note)


def _setting(plan: ResolvedPlan, arm: Arm, complete: Mapping[str, Any], name: str) -> str:
    value = complete.get(name)
    if value is None or value == {} or not has_setting(name, complete):
        return "–"
    if plan.trials and name in (arm.space or {}):
        return f"{{{', '.join(map(str, (arm.space or {})[name]))}}}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return show_settings(value) if isinstance(value, dict) else str(value)


def _failures(summary: Summary) -> list[Block]:
    failed = summary.failed
    if not failed:
        return [Text("No fit failed.")]
    rows = [[entry.id, str(entry.reason)] for entry in failed]
    note = "The same command with --retry-failed tries them again."
    return [Table(StudyTable(f"{_count(len(failed), 'fit')} failed", ["fit", "reason"], rows, note))]


def _reading(summary: Summary) -> dict[str, str]:
    found = {
        ", ".join([choosing_head(summary.arms), *test_heads(summary)]): "Mean ± standard deviation over the final runs."
        + (" The worst test is each run's own." if len(summary.tests) > 1 else ""),
        "against the baseline (95 %)": "The mean of the paired differences, positive where the arm is better, and its "
        "interval (paired t). If the interval includes zero, the difference is not significant (95 %). Below three "
        "pairs, and where all differ alike, there is no interval.",
        "won–tied–lost": "Over all pairs of runs with the same seeds.",
    }
    if len([arm for arm in summary.of_rule(main_rule_of(summary)) if arm.baseline]) > 1:
        found["several comparisons"] = (
            "Intervals are not corrected for the number of comparisons: of twenty comparisons of equal arms, one is "
            "significant by chance."
        )
    if summary.limits:
        found["in-domain limit"] = "The same backbone, cross-validated on each test graph's own labels."
        found["gap closed"] = (
            "(arm − baseline) / (limit − baseline); “no gap” where the limit is not significantly above the baseline."
        )
    if shows_majority(summary):
        found["share of the largest class"] = "An accuracy below it is worse than no model."
    if any(not entry.allowed for entry in summary.selections):
        found[f"oracle ({NOT_ALLOWED})"] = (
            "Not a result to report: it shows how much selection without test labels costs."
        )
    return found


def _provenance(summary: Summary) -> list[Block]:
    files = "`plan.json` has the plan, `results.jsonl` every fit, and `summary.json` every number shown here, unrounded"
    blocks: list[Block] = [Text(f"Written by graphshift {summary.version}. Beside this page, {files}.")]
    sessions = summary.provenance
    for i, session in enumerate(sessions, 1):
        facts = Facts(_session(session))
        name = f"Session {i} of {len(sessions)}, {_moment(session)}"
        blocks.append(facts if len(sessions) == 1 else Details(name, [facts]))
    return blocks


def _session(session: Mapping[str, Any]) -> dict[str, str]:
    git, hardware = session["git"], session["hardware"]
    versions = ", ".join(f"{name} {version}" for name, version in session["versions"].items() if version)
    machine = [hardware["processor"], f"{hardware['system']} {hardware['machine']}", _count(hardware["cores"], "core")]
    machine += [f"{hardware['memory_gb']} GB"] if hardware["memory_gb"] else []
    workers, threads = _count(session["workers"], "worker"), _count(session["threads_per_worker"], "thread")
    commit = "not known" if git is None else git["commit"] + (", with changes" if git["changed"] else "")
    return {
        "Started": _moment(session),
        "Command": f"`{session['command']}`" if session["command"] else "from Python",
        "Versions": versions,
        "Commit": commit,
        "Computed with": f"{workers} with {threads}",
        "Hardware": ", ".join(filter(None, machine)),
    }


def _moment(session: Mapping[str, Any]) -> str:
    return str(session["started"]).replace("T", " ").replace("+00:00", " UTC")


def _again(summary: Summary) -> list[Block]:
    command = next((session["command"] for session in summary.provenance if session["command"]), None)
    same = "The same machine, versions and threads give the same scores."
    if command is None:
        return [Text(f"The study was started from Python: `run_study` with the plan that `plan.json` shows. {same}")]
    return [Text(f"Folders are shortened to their last name. {same}"), Code(command)]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _list(values: Sequence[int]) -> str:
    """Numbers in a row; a long run of them by its ends."""
    whole = len(values) > 3 and list(values) == list(range(values[0], values[0] + len(values)))
    return f"{values[0]} … {values[-1]}" if whole else ", ".join(map(str, values))
