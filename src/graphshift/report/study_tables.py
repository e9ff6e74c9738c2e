"""A study's tables: for the terminal, Markdown, LaTeX and CSV, all from its summary."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from graphshift.data.metrics import METRICS
from graphshift.estimators.adaptation import ALONE
from graphshift.estimators.target import MARK, MEANING
from graphshift.report.tables import print_table, show_score
from graphshift.studies import NOT_ALLOWED, Difference, Summary
from graphshift.studies.gap import Limit
from graphshift.studies.statistics import Spread
from graphshift.studies.summary import ArmSummary
from graphshift.training.selection import SELECTIONS


@dataclass(frozen=True)
class StudyTable:
    """One table: a title, the heads of its columns, its cells as text, and what to know when reading it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def study_tables(summary: Summary) -> list[StudyTable]:
    """All tables of a study: those of :func:`main_tables`, then environments, chosen settings and cost."""
    environments = [_environments(summary, entry.rule) for entry in summary.selections if len(summary.tests) > 1]
    return [*main_tables(summary), *environments, *([_chosen(summary)] if summary.tuning else []), _cost(summary)]


def main_tables(summary: Summary) -> list[StudyTable]:
    """What a reader asks for first: the scores by each rule and, if there are several, the rules side by side."""
    tables = [_scores(summary, entry.rule) for entry in summary.selections]
    return [*tables, _side_by_side(summary)] if len(tables) > 1 else tables


def rule_label(summary: Summary, rule: str) -> str:
    """A rule with what must be said beside it."""
    note = next(entry.note for entry in summary.selections if entry.rule == rule)
    return f"{rule} ({note})" if note else rule


def _scores(summary: Summary, rule: str) -> StudyTable:
    metric = summary.metric
    own = summary.of_rule(rule)
    with_gap = any(arm.gap_closed for arm in own)
    heads = test_heads(summary)
    rows = []
    for arm in own:
        chosen_by = arm.val if arm.choosing is None else arm.choosing
        spreads = [show_spread(scores, metric) for scores in (chosen_by, arm.mean_test, arm.worst_test)]
        row = [arm.marked, *spreads[: 1 + len(heads)], *show_difference(arm.difference.main, metric)]
        row += [arm.gap_closed.text if arm.gap_closed else "–"] if with_gap else []
        rows.append([*row, str(arm.failed)])
    methods = {arm.arm: arm.method for arm in own}
    against = "ERM" if all(methods[a.baseline] == "erm" for a in own if a.baseline) else "its baseline"
    choosing = choosing_head(own)
    columns = ["arm", choosing, *heads, f"{[*heads, choosing][0]} against {against} (95 %)", "p"]
    columns += ["won–tied–lost", *(["gap closed"] if with_gap else []), "failed"]
    chosen = f"epoch and setting chosen by {rule_label(summary, rule)}"
    title = f"{summary.dataset}: {METRICS.find(metric).title}, {chosen}"
    return StudyTable(title, columns, rows, _note(summary, own))


def test_heads(summary: Summary) -> list[str]:
    """The columns of test scores: with one test environment its mean is its worst, and none is shown without tests."""
    return [[], ["test"], ["mean test", "worst test"]][min(len(summary.tests), 2)]


def choosing_head(arms: Sequence[ArmSummary]) -> str:
    """The name of the column of the scores that a rule chose by."""
    held_out = any(arm.selection == "id_val" and arm.choosing is not None for arm in arms)
    return "held-out training nodes" if held_out else "validation"


def _note(summary: Summary, arms: Sequence[ArmSummary]) -> str:
    seeds, data_seeds = len(summary.seeds), summary.data_seeds
    runs = max((arm.runs for arm in arms), default=0)
    tuned = show_budget(summary) if summary.tuning else "no tuning"
    counted = f"{runs} runs ({len(data_seeds)} data seeds)" if data_seeds else f"{seeds} seed{'s' * (seeds != 1)}"
    note = f"{counted}, ± standard deviation over runs; {tuned}; paired t intervals"
    found = [d for arm in arms if (d := arm.difference.main)]
    note += " over data seeds" if "data seeds" in {d.unit for d in found} else ""
    note += " and resampled nodes" if any(d.nodes_error is not None for d in found) else ""
    if any(d.low is None for d in found):
        note += " (none below three pairs, and none where all differences are alike)"
    others = [a for a in arms if a.baseline is not None]
    note += f", not corrected for {len(others)} comparisons" if len(others) > 1 else ""
    members = max((arm.ensemble for arm in arms), default=1)
    note += f". × {members}: the mean of {members} models that differ in their seed" if members > 1 else ""
    return note + "." + adapting_note(summary, arms) + target_note(arms)


def adapting_note(summary: Summary, arms: Sequence[ArmSummary]) -> str:
    """What must be said of arms that look at the tests without their labels; nothing if there are none."""
    ways = [arm.adapt for arm in arms if arm.adapt]
    if not ways:
        return ""
    text = f" {', '.join(f'+ {way}' for way in dict.fromkeys(ways))}: the model looked at the unlabelled test graphs."
    prior = [arm for arm in arms if arm.adapt and "prior" in arm.adapt]
    text += _refusals(summary, prior, "the prior was left as it is, as unsafe")
    for way in dict.fromkeys(way for way in ways if way in ALONE):
        text += _refusals(summary, [arm for arm in arms if arm.adapt == way], f"{way} was not taken")
    return text


def _refusals(summary: Summary, arms: Sequence[ArmSummary], what: str) -> str:
    """How often arms did without the adaptation that they are named for."""
    graphs = len(summary.tests) * sum(arm.runs for arm in arms)
    if not graphs:
        return ""
    members = " (of an ensemble: by a member or more)" if any(arm.ensemble > 1 for arm in arms) else ""
    return f" In {sum(arm.refused for arm in arms)} of {graphs} cases {what}{members}."


def target_note(arms: Sequence[ArmSummary]) -> str:
    """What the mark beside an arm's name means; nothing if none has it."""
    return f" {MARK}: {MEANING}." if any(arm.trained_with for arm in arms) else ""


def _side_by_side(summary: Summary) -> StudyTable:
    metric, rules, kinds = summary.metric, [entry.rule for entry in summary.selections], test_heads(summary)
    found = {(arm.arm, arm.selection): arm for arm in summary.arms}
    rows = []
    for name in summary.arm_names():
        own = [found.get((name, rule)) for rule in rules]  # None: all its runs failed
        both = [(None, None) if arm is None else (arm.mean_test, arm.worst_test) for arm in own]
        shown = [one for pair in both for one in pair[: len(kinds)]]
        if not summary.tests:
            shown = [None if arm is None else arm.choosing or arm.val for arm in own]
        marked = next(arm.marked for arm in own if arm is not None)
        rows.append([marked, *("–" if one is None else show_spread(one, metric) for one in shown)])
    heads = [f"{kind}, {rule_label(summary, rule)}" for rule in rules for kind in kinds or ["choosing score"]]
    title = f"{summary.dataset}: {METRICS.find(metric).title} by selection rule"
    return StudyTable(title, ["arm", *heads], rows, target_note(summary.arms).strip())


def _environments(summary: Summary, rule: str) -> StudyTable:
    metric = summary.metric
    arms, tests = summary.of_rule(rule), summary.tests
    rows = [[arm.marked, *(show_spread(arm.environments[name], metric) for name in tests)] for arm in arms]
    for backbone, limit in summary.limits.items():
        rows.append([f"in-domain limit, {backbone}", *show_limit(limit, summary)])
    if shows_majority(summary):
        shares = [show_score(summary.majority.get(name), "accuracy") for name in summary.tests]
        rows.append(["share of the largest class (%)", *shares])
    note = "in-domain limit: ERM cross-validated on each test graph's own labels (5 folds)." if summary.limits else ""
    chosen = f"chosen by {rule_label(summary, rule)}"
    note = (note + target_note(arms)).strip()
    title = f"{summary.dataset}: {METRICS.find(metric).title} by test environment, {chosen}"
    return StudyTable(title, ["arm", *summary.tests], rows, note)


def shows_majority(summary: Summary) -> bool:
    """Whether the share of the largest class can be compared with the scores: with accuracies alone."""
    return bool(summary.majority) and summary.metric == "accuracy"


def show_limit(limit: Limit, summary: Summary) -> list[str]:
    """An in-domain limit on each test."""
    found = [limit.environments.get(name) for name in summary.tests]
    return [show_score(None if one is None else one.mean, summary.metric) for one in found]


def _chosen(summary: Summary) -> StudyTable:
    rows = []
    for arm in summary.arms:
        if not arm.trials or arm.is_variant:
            continue
        chosen = "every trial failed" if arm.chosen is None else show_settings(arm.chosen)
        score, trials = show_score(arm.chosen_score, summary.metric), f"{arm.chosen_trials or 0} of {arm.trials}"
        rows.append([arm.marked, rule_label(summary, arm.selection), chosen, score, trials])
    note = "score: mean of the rule's own scores over the trials of that setting."
    return StudyTable("chosen settings", ["arm", "rule", "chosen", "score", "its trials"], rows, note)


def _cost(summary: Summary) -> StudyTable:
    first = summary.selections[0].rule
    rows = []
    for arm in summary.of_rule(first):
        if arm.is_variant:
            continue
        milliseconds = "–" if arm.seconds_per_epoch is None else f"{1000 * arm.seconds_per_epoch:.1f}"
        memory = "–" if arm.peak_rss_mb is None else f"{arm.peak_rss_mb:.0f}"
        seconds = "–" if arm.seconds is None else f"{arm.seconds:.1f}"
        rows.append([arm.marked, milliseconds, seconds, memory, "–" if arm.variance is None else f"{arm.variance:.1e}"])
    columns = ["arm", "ms an epoch", "seconds a fit", "peak memory (MB)", "variance of risks"]
    note = f" ({NOT_ALLOWED})" if SELECTIONS[first].uses_tests else ""
    return StudyTable(f"cost of the runs chosen by {first}{note}", columns, rows)


def show_budget(summary: Summary) -> str:
    """What tuning had."""
    each = f", {summary.repeats} seeds for each setting" if summary.repeats > 1 else ""
    return f"{summary.trials} trials of tuning for each arm{each}"


def show_settings(settings: Mapping[str, Any]) -> str:
    """Tuned settings in one line."""
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "–"


def show_spread(both: Spread, metric: str) -> str:
    """Mean ± standard deviation."""
    if both.mean is None:
        return "–"
    if both.std is None:  # of one run
        return show_score(both.mean, metric)
    scale = METRICS.find(metric).scale
    return f"{show_score(both.mean, metric)} ± {scale * both.std:.{1 if scale == 100 else 4}f}"


def show_difference(difference: Difference | None, metric: str) -> list[str]:
    """The difference with its interval, its p value, and pairs won, tied and lost."""
    if difference is None:
        return ["–", "–", "–"]
    scale, digits = METRICS.find(metric).scale, METRICS.find(metric).digits
    text = f"{scale * difference.mean:+.{digits}f}"
    if difference.low is not None and difference.high is not None:
        text += f" [{scale * difference.low:+.{digits}f}, {scale * difference.high:+.{digits}f}]"
    p = difference.p
    shown = "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
    return [text, shown, f"{difference.wins}–{difference.ties}–{difference.losses}"]


def as_text(summary: Summary) -> str:
    """All tables and findings as they look on a terminal."""
    text = io.StringIO()
    for table in study_tables(summary):
        print_table(table.title, table.columns, table.rows, note=table.note, file=text)
        text.write("\n")
    text.write("".join(f"{finding.text}\n" for finding in summary.findings))
    return text.getvalue()


def markdown_table(table: StudyTable) -> str:
    """One table as Markdown."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "| --- |" + " ---: |" * (len(table.columns) - 1)
    lines = [f"**{table.title}**", "", line(table.columns), rule, *map(line, table.rows)]
    return "\n".join([*lines, *(["", f"*{table.note}*"] if table.note else [])])


def as_markdown(summary: Summary) -> str:
    """All tables and findings as Markdown."""
    parts = [markdown_table(table) for table in study_tables(summary)]
    parts.append("\n".join(f"- {finding.text}" for finding in summary.findings))
    return "\n\n".join(filter(None, parts)) + "\n"


def as_latex(summary: Summary) -> str:
    """All tables as a LaTeX document with booktabs; each can be copied out on its own."""
    packages = ("[T1]{fontenc}", "{booktabs}", "{graphicx}", "[landscape,margin=2cm]{geometry}")
    lines = [r"\documentclass{article}", *(rf"\usepackage{name}" for name in packages), r"\begin{document}", ""]
    for table in study_tables(summary):
        lines += [
            "\\begin{table}[ht]\n\\centering",
            rf"\caption{{{_tex(table.title)}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            "\\toprule\n" + " & ".join(map(_tex, table.columns)) + " \\\\\n\\midrule",
            *(" & ".join(map(_tex, row)) + r" \\" for row in table.rows),
            "\\bottomrule\n\\end{tabular}}",
        ]
        lines += [rf"\par\smallskip{{\small {_tex(table.note)}}}"] if table.note else []
        lines += [r"\end{table}", ""]
    return "\n".join([*lines, r"\end{document}", ""])


_TEX = {character: f"\\{character}" for character in "&%$#_{}"} | {"[": "{[}", "]": "{]}", "<": "$<$", ">": "$>$"}
_TEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
_TEX |= {"†": r"$\dagger$", "–": "--", "−": "$-$", "²": "$^2$", "β": r"$\beta$", "·": r"$\cdot$"}


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)


def as_csv(summary: Summary) -> str:
    """One line for each arm and rule, with every number in full."""
    lines = []
    plain = ("arm", "method", "backbone", "explorer", "ensemble", "adapt", "selection", "baseline", "runs", "failed")
    for arm in summary.arms:
        line: dict[str, Any] = {name: getattr(arm, name) for name in plain}
        line["trained_with"] = json.dumps(arm.trained_with)
        line["allowed"] = "yes" if arm.allowed else f"no ({NOT_ALLOWED})"
        for key, both in {"val": arm.val, "mean_test": arm.mean_test, "worst_test": arm.worst_test}.items():
            line |= {f"{key}_mean": both.mean, f"{key}_std": both.std}
        for key, difference in {"mean_test": arm.difference.mean_test, "worst_test": arm.difference.worst_test}.items():
            known = {} if difference is None else asdict(difference)
            for part in ("mean", "low", "high", "p", "seeds", "unit", "wins", "losses", "ties"):
                line[f"{key}_difference_{part}"] = known.get(part)
        line["gap_closed"] = arm.gap_closed.share if arm.gap_closed else None
        line["gap"] = arm.gap_closed.gap if arm.gap_closed else None
        line["chosen"] = json.dumps(arm.chosen)
        line |= {name: getattr(arm, name) for name in ("best_epoch", "seconds_per_epoch", "peak_rss_mb", "variance")}
        for name in summary.tests:
            line |= {f"{name}_mean": arm.environments[name].mean, f"{name}_std": arm.environments[name].std}
        lines.append(line)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
