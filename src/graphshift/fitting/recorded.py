"""The dataset that a run was fitted on, read again."""

from pathlib import Path

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import checked_note
from graphshift.core.storage import read_json
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets import load
from graphshift.fitting.notes import ConfigNote


def data_of_run(folder: Path, data_dir: Path | None = None) -> ShiftDataset:
    """Loads what ``config.json`` names; a model's folder has none, and that is said.

    Args:
        folder: of a run or an ensemble.
        data_dir: where the raw files are, if not where they were.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise GraphshiftError(
            f"{folder}: there is no config.json to say what the model was fitted on; name a dataset or tables."
        )
    config = checked_note(ConfigNote, read_json(path), where=str(path))
    return load(config.dataset, **config.options | ({} if data_dir is None else {"data_dir": data_dir}))
