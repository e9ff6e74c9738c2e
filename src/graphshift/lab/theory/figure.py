"""The figure of the theory: risks by environment, encoders, the worst risk and the bounds along β."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphshift.lab.theory.cases import CASES
from graphshift.lab.theory.information import conditional
from graphshift.lab.theory.objectives import risks
from graphshift.lab.theory.tables import MAIN
from graphshift.report.figures import COLOURS, can_draw, new_figure, plain, save_both

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The cases whose worst risk is drawn along β, in the order of colours.
_DRAWN = ("spurious", "enough", "narrow", "few", "uneven", "alike")


def draw_theory(records: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draws ``theory-section4`` as PNG and SVG.

    Args:
        records: of :func:`graphshift.lab.theory.running.run_theory`.
        folder: where the pictures go.
    """
    if not can_draw():
        return []
    folder.mkdir(parents=True, exist_ok=True)
    cases = {case["case"]: case for case in records["cases"]}
    figure = new_figure(10.5, 7.6)
    panels = figure.subplots(2, 2)
    _risks(panels[0][0], cases[MAIN])
    _encoders(panels[0][1], cases[MAIN])
    _worst(panels[1][0], cases)
    _bounds(panels[1][1], cases[MAIN])
    return save_both(figure, folder / "theory-section4")


def _risks(axes: Axes, case: Mapping[str, Any]) -> None:
    """The risk is linear in the environment: Eq. 4 turns the line until it is flat."""
    world, rho = CASES[MAIN].world, np.array([0.0, 1.0])
    path = case["path"]
    shown = [("ERM", conditional(world.mixture))]
    for beta in (0.1, 0.01):
        distances = [abs(np.log(row["beta"] / beta)) for row in path]
        row = path[int(np.argmin(distances))]
        shown.append((f"Eq. 4, β = {row['beta']:.2g}", np.stack([1 - np.array(row["q"]), np.array(row["q"])], axis=1)))
    shown += [("f* = p(y|r)", world.ideal), ("q = ½", np.full((4, 2), 0.5))]
    for (name, q), colour in zip(shown, COLOURS, strict=False):
        axes.plot(rho, risks(world.every, q), color=colour, label=name)
    for trained in (0.7, 0.9):
        axes.axvline(trained, color="grey", linestyle=":", linewidth=1)
    axes.annotate("training", (0.8, axes.get_ylim()[1]), ha="center", va="top", fontsize=8, color="grey")
    axes.set(xlabel="ρ, how often r̄ = y in the environment", ylabel="risk", title="Risk in every environment")
    axes.legend(fontsize=8, frameon=False)
    plain(axes, "y")


def _encoders(axes: Axes, case: Mapping[str, Any]) -> None:
    for row in case["encoders"]:
        flat = row["variance"] < 1e-12
        style: dict[str, Any] = {"color": COLOURS[0] if flat else COLOURS[3], "fillstyle": "full" if flat else "none"}
        axes.plot(row["information"], max(row["gap"], 0), "o", **style)
        if row["encoder"] in ("nothing", "r", "r̄", "r and r̄"):
            axes.annotate(row["encoder"], (row["information"], row["gap"]), (5, 4), textcoords="offset points")
    axes.plot([], [], "o", color=COLOURS[0], label="variance of the risks = 0")
    axes.plot([], [], "o", color=COLOURS[3], fillstyle="none", label="variance above 0")
    axes.set(xlabel="I(y; z): sufficiency", ylabel="I(y; e | z): 0 is invariance", title="All 15 encoders")
    axes.margins(0.12)
    axes.legend(fontsize=8, frameon=False)
    plain(axes, "y")


def _worst(axes: Axes, cases: Mapping[str, Mapping[str, Any]]) -> None:
    for name, colour in zip(_DRAWN, COLOURS, strict=True):
        rows, ideal = cases[name]["path"], cases[name]["ideal"]["worst"]
        axes.plot([row["beta"] for row in rows], [row["worst"] - ideal for row in rows], color=colour, label=name)
    axes.axhline(0, color="black", linewidth=0.8, linestyle=":")
    axes.set(xscale="log", xlabel="β", ylabel="worst risk − that of f*", title="Eq. 4 along β, by case")
    axes.invert_xaxis()
    axes.legend(fontsize=8, frameon=False, ncols=2)
    plain(axes, "y")


def _bounds(axes: Axes, case: Mapping[str, Any]) -> None:
    rows = case["path"]
    betas = [row["beta"] for row in rows]
    own = {row["encoder"]: row["new"] for row in case["encoders"]}
    for key, label, colour in (
        ("error", "OOD error", COLOURS[0]),
        ("paper", "sum of Lemmas 2 and 3", COLOURS[3]),
        ("repaired", "a bound that holds", COLOURS[2]),
    ):
        axes.plot(betas, [row[key] for row in rows], color=colour, label=f"{label}, z = x")
        axes.plot(betas, [own[row["encoder"]][key] for row in rows], color=colour, linestyle="--")
    axes.plot([], [], color="grey", linestyle="--", label="the same for the z that Eq. 4 chooses")
    axes.set(xscale="log", yscale="log", xlabel="β", ylabel="nats", title="The error at ρ = 0.1 and its bounds")
    axes.set_ylim(top=20)  # room for the legend
    axes.invert_xaxis()
    axes.legend(fontsize=8, frameon=False)
    plain(axes, "y")
