"""Shows the notebooks of `docs/notebooks` with their output: a page `notebooks/NAME.md` for each `NAME.ipynb`."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def pages_of(path: Path) -> dict[str, str | bytes]:
    """By name the files that a notebook becomes: a page, and its pictures."""
    from nbconvert import MarkdownExporter

    text, resources = MarkdownExporter().from_filename(str(path))
    found: dict[str, str | bytes] = {}
    for name, content in resources["outputs"].items():
        found[f"{path.stem}-{name}"] = content
        text = text.replace(f"({name})", f"({path.stem}-{name})")
    link = f"[Download this notebook]({path.name}){{ .md-button download }}"
    title, _, rest = text.lstrip().partition("\n")
    found[f"{path.stem}.md"] = f"{title}\n\n{link}\n{rest}"
    return found


def on_files(files: Any, *, config: Any) -> Any:
    """Adds the pages to the site's."""
    from mkdocs.structure.files import File

    for path in sorted(Path(config.docs_dir).glob("notebooks/*.ipynb")):
        for name, content in pages_of(path).items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files
