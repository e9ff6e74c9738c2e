"""Executes the notebooks of the documentation and keeps their output: `python docs/notebooks.py [NAME …]`.

The site shows what is kept (`docs/hooks/notebooks.py`). Tests execute every notebook with small numbers in place of the
cell that is tagged `parameters`.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "notebooks"


def notebooks() -> list[Path]:
    """Every notebook."""
    return sorted(FOLDER.glob("*.ipynb"))


def executed(path: Path, folder: Path, *, small: bool = False) -> Any:
    """The notebook with its output, run in an empty folder.

    Args:
        path: of the notebook.
        folder: its working folder.
        small: take the numbers in the metadata of the notebook, `{"graphshift": {"small": "epochs = 2"}}`, instead.
    """
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(path, as_version=4)
    for cell in content.cells:
        if small and "parameters" in cell.metadata.get("tags", ()):
            cell.source = content.metadata["graphshift"]["small"]
    NotebookClient(content, timeout=1800, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in content.cells:
        cell.metadata.pop("execution", None)  # times
        for output in cell.get("outputs", ()):
            if output["output_type"] == "stream":  # a warning names a file of this machine
                # Not of ours: tqdm asks for widgets.
                output["text"] = re.sub(r"(?m)^\S*: TqdmWarning: .*\n(  .*\n)?", "", output["text"])
                output["text"] = re.sub(r"(?m)^\S*/\S*?:\d+: (\w*Warning: )", r"\1", output["text"])
        if "outputs" in cell:
            cell.outputs = [one for one in cell.outputs if one.get("text") != ""]
    content.metadata.pop("language_info", None)
    return content


def main(names: list[str]) -> None:
    """Executes those that are named, or all."""
    import nbformat

    for path in notebooks():
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(executed(path, Path(folder)), path)
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
