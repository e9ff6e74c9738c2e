"""A comparison of two graphs as tables."""

from graphshift.data.metrics import METRICS
from graphshift.estimators.estimating import Estimate
from graphshift.report.study_tables import StudyTable
from graphshift.shift.comparing.compare import Comparison
from graphshift.shift.comparing.features import named


def blocks_table(found: Comparison) -> StudyTable:
    """One row for each block: whether it moved, the effect with its interval, and the corrected p value."""
    rows = []
    for block in found.blocks:
        effect = "–" if block.effect is None else f"{block.effect:.2f}"
        between = "–" if block.low is None or block.high is None else f"{block.low:.2f} to {block.high:.2f}"
        moved = "?" if block.p is None else "moved" if block.moved else "–"
        p = "–" if block.corrected is None else f"{block.corrected:.3f}"
        rows.append([block.name, moved, effect, between, f"{block.none:.2g}", p, block.measure])
    note = (
        f"p: over {found.parts[0]} communities of the source and {found.parts[1]} of the target, corrected for the "
        f"number of blocks: if nothing has moved, the chance of naming any is about {100 * found.level:.2g} % at most. "
        "?: nothing can be said."
    )
    columns = ["block", "", "effect", "95 %", "if nothing moved", "p", "what the effect is"]
    return StudyTable(f"{found.source} → {found.target}", columns, rows, note)


def columns_table(found: Comparison) -> StudyTable:
    """The columns of the features that moved most."""
    rows = [
        [
            named(row),
            f"{row['source']:.4g}",
            f"{row['target']:.4g}",
            f"{row['difference']:+.2f}",
            f"{100 * row['source_at_most']:.0f} → {100 * row['target_at_most']:.0f} % have at most {row['at']:.3g}",
            f"{row['p']:.3f}",
        ]
        for row in found["features"].details.get("columns", [])
    ]
    heads = ["column", "mean, source", "mean, target", "difference (deviations)", "where they differ most", "p"]
    note = (
        "p is the smaller one of the mean and of the shares of nodes above seven values, corrected for the number of "
        "columns and values; where both graphs have labels it compares nodes of one class."
    )
    return StudyTable("columns that moved most", heads, rows, note)


def told(found: Estimate, run: str = "the model") -> str:
    """What a model is expected to score, as a sentence."""
    metric = METRICS.find(found.metric)
    own = f"{metric.show(found.held_out)} on held-out nodes of the source"
    if found.expected is None:
        return f"What {run} will score on the target cannot be told ({found.refused}); it has {own}, {metric.title}."
    between = f"{metric.show(found.low)} to {metric.show(found.high)}"
    return f"{run} is expected to score {metric.show(found.expected)} on the target ({between}), {metric.title}; {own}."


def estimates_table(found: Estimate) -> StudyTable:
    """Every estimate of a score without labels."""
    metric = METRICS.find(found.metric)
    rows = [[name, metric.show(value)] for name, value in found.by.items()]
    note = "-prior: corrected for class shares. -edges, -features, -both: from a copy that was moved to the target."
    return StudyTable("estimates without labels", ["estimate", metric.title], rows, note)
