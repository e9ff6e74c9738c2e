"""Writes a study's report: tables in four formats, figures in two, and one page with everything."""

from __future__ import annotations

from pathlib import Path

from graphshift.core.storage import write_text
from graphshift.report.study_figures import draw_figures
from graphshift.report.study_page import study_page
from graphshift.report.study_tables import as_csv, as_latex, as_markdown, as_text
from graphshift.studies import Study


def write_report(study: Study, folder: Path | str) -> list[Path]:
    """Writes ``table.txt``, ``.md``, ``.tex`` and ``.csv``, ``figures/`` and ``report.html``, over those there.

    Args:
        study: from :func:`graphshift.studies.run_study`.
        folder: the study's.

    Returns:
        What was written.
    """
    folder = Path(folder)
    written = []
    for name, content in (
        ("table.txt", as_text(study.summary)),
        ("table.md", as_markdown(study.summary)),
        ("table.tex", as_latex(study.summary)),
        ("table.csv", as_csv(study.summary)),
    ):
        write_text(folder / name, content)
        written.append(folder / name)
    rows = {rule: study.rows(rule) for rule in study.plan.selections}
    written += draw_figures(study.summary, rows, folder / "figures")
    write_text(folder / "report.html", study_page(study, folder / "figures"))
    return [*written, folder / "report.html"]
