"""Writes a study's report: tables in four formats, figures in two, and one page with everything."""

from collections.abc import Sequence
from pathlib import Path

from graphshift.core.storage import write_text
from graphshift.report.page import Block
from graphshift.report.study_figures import draw_figures
from graphshift.report.study_page import study_page
from graphshift.report.study_tables import as_csv, as_latex, as_markdown, as_text
from graphshift.studies import Study


def write_report(study: Study, folder: Path | str, *, answer: Sequence[Block] = ()) -> list[Path]:
    """Writes ``table.txt``, ``.md``, ``.tex`` and ``.csv``, ``figures/`` and ``report.html``, over those there.

    ``answer`` heads the page instead of what the study found. Returns the paths of what was written.
    """
    folder = Path(folder)
    written = []
    for suffix, shown in {"txt": as_text, "md": as_markdown, "tex": as_latex, "csv": as_csv}.items():
        written.append(folder / f"table.{suffix}")
        write_text(written[-1], shown(study.summary))
    rows = {rule: study.rows(rule) for rule in study.plan.selections}
    written += draw_figures(study.summary, rows, folder / "figures")
    write_text(folder / "report.html", study_page(study, folder / "figures", answer=answer))
    return [*written, folder / "report.html"]
