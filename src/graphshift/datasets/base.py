"""The registry of datasets: each is one file of this package, with its defaults and its catalogue entry.

A dataset of your own is a function with a decorator, here or in a plug-in (:mod:`graphshift.core.registry`)::

    @DATASETS.register("mine", summary="my graph, by year", shift="temporal", origin="my desk")
    def mine(*, seed: int = 0) -> ShiftDataset: ...
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphshift.core.arguments import check_types
from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import Registry, expected_one_of
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.reading.files import Source


@dataclass(frozen=True)
class Entry:
    """One dataset of the catalogue. Calling it loads the dataset.

    Attributes:
        name: as in ``graphshift.load``.
        loader: the function that makes the dataset; its parameters are the dataset's options.
        summary: one line. Without it the dataset is not listed.
        shift: what kind: ``"planted"``, ``"artificial"``, ``"cross-domain"``, ``"temporal"`` or
            ``"structural"``.
        origin: where the data come from.
        sources: its raw files. Default: none, as of built-in data.
        figure: the figure that shows it best, a name from :data:`graphshift.report.data_figures.FIGURES`.
        note: a remark on its statistics.
        needed: the files without which it cannot be loaded. Default: all.
    """

    name: str
    loader: Callable[..., ShiftDataset]
    summary: str = ""
    shift: str = ""
    origin: str = "built in"
    sources: Sequence[Source] = ()
    figure: str = "overview"
    note: str = ""
    needed: Sequence[Source] | None = None

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the loader by name."""
        return inspect.signature(self.loader).parameters

    def __call__(self, **options: Any) -> ShiftDataset:
        """Loads the dataset.

        Args:
            options: of the loader, such as ``nodes=500``; names and types are checked first.
        """
        known = self.options
        for option in options:
            if option not in known:
                expected = expected_one_of(option, list(known))
                raise GraphshiftError(f"dataset {self.name!r} has no option {option!r}; {expected}")
        needed = [p.name for p in known.values() if p.default is p.empty and p.name not in options]
        if needed:
            raise GraphshiftError(
                f"dataset {self.name!r} needs {' and '.join(needed)}; "
                "`graphshift init NODES EDGES` writes a TOML file with them."
            )
        check_types(f"dataset {self.name!r}", self.loader, options)
        try:
            return self.loader(**options)
        except TypeError as error:
            raise GraphshiftError(f"dataset {self.name!r}: an option has the wrong type: {error}.") from None


#: Every dataset by name.
DATASETS: Registry[Entry] = Registry("dataset", "graphshift.datasets", make=Entry)


def load(name: str, /, **options: Any) -> ShiftDataset:
    """Loads a dataset by name.

    Args:
        name: a name from :data:`DATASETS`.
        options: of that dataset, such as ``nodes=500``.

    >>> load("planted", nodes=60, environments=3)
    ShiftDataset('planted', multiclass, accuracy, train ['train'], val ['val'], tests ['T1'])
    """
    return DATASETS.find(name)(**options)
