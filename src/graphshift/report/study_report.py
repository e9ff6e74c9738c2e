"""Writes a study's report: tables in four formats, figures in two, and one page with everything."""

from pathlib import Path

from graphshift.core.storage import write_text
from graphshift.report.study_figures import draw_figures
from graphshift.report.study_page import study_page
from graphshift.report.study_tables import as_csv, as_latex, as_markdown, as_text
from graphshift.studies import Study


def write_report(study: Study, folder: Path | str) -> list[Path]:
    """Writes ``table.txt``, ``.md``, ``.tex`` and ``.csv``, ``figures/`` and ``report.html``, over those there.

    Returns the paths of what was written into the study's folder.
    """
    folder = Path(folder)
    written = []
    for suffix, shown in {"txt": as_text, "md": as_markdown, "tex": as_latex, "csv": as_csv}.items():
        written.append(folder / f"table.{suffix}")
        write_text(written[-1], shown(study.summary))
    rows = {rule: study.rows(rule) for rule in study.plan.selections}
    written += draw_figures(study.summary, rows, folder / "figures")
    write_text(folder / "report.html", study_page(study, folder / "figures"))
    return [*written, folder / "report.html"]
