"""What all figures share: colours, a plain frame, saving."""

from __future__ import annotations

import io
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from graphshift.core.errors import GraphshiftWarning
from graphshift.core.extras import missing_extra, require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Colours that colour-blind readers can tell apart (Okabe and Ito), in the order of arms.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#7F7F7F", "#CC79A7")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; every figure of the package begins here."""
    require_extra("matplotlib", "drawing figures")
    return _picture_class()(figsize=(width, height), layout="constrained")


@cache
def _picture_class() -> type[Figure]:
    """A figure that Jupyter shows without being told to; matplotlib's own needs ``%matplotlib inline``."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            self.savefig(content, format="png", dpi=90)
            return content.getvalue()

    return Picture


def can_draw() -> bool:
    """Whether figures can be drawn; if not, a warning says that they are left out and what to install."""
    message = missing_extra("matplotlib", "drawing figures")
    if message is not None:
        warnings.warn(f"no figures: {message}", GraphshiftWarning, stacklevel=2)
    return message is None


def save_both(figure: Figure, path: Path) -> list[Path]:
    """Saves a figure as PNG and SVG.

    Args:
        figure: what was drawn.
        path: without suffix.
    """
    import matplotlib

    both = [path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "svg")]
    # No date and no random ids: the same study draws the same file. Text stays text: small, searchable.
    with matplotlib.rc_context({"svg.hashsalt": "graphshift", "svg.fonttype": "none"}):
        figure.savefig(both[0], dpi=130)
        figure.savefig(both[1], metadata={"Date": None})
    return both


def plain(axes: Axes, grid: Literal["x", "y"]) -> None:
    """No frame, and a light grid across the values, behind them."""
    axes.grid(axis=grid, alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
