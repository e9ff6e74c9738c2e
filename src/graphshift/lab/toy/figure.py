"""The figure of the motivating example: the two loss surfaces over θ, with what minimises them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from graphshift.core.errors import GraphshiftError
from graphshift.core.extras import require_extra
from graphshift.lab.toy.closed import eerm_optimum, erm_optimum, proposition_1
from graphshift.lab.toy.process import Reading
from graphshift.lab.toy.toy import ToyCase, ToyResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SUFFIXES = (".png", ".svg", ".pdf")
THETA1 = (-0.8, 1.8)
THETA2 = (-0.35, 0.65)
POINTS = 121
LABELLED_BETAS = (1.0, 0.1, 0.01, 0.001)
# Okabe and Ito's palette, which colour-blind readers can tell apart.
ORANGE, GREEN, BLACK = "#D55E00", "#007A5A", "#000000"


def draw_toy(
    result: ToyResult, path: str | Path, *, reading: Reading = "proof", sigma: float | None = None, dpi: int = 110
) -> Path:
    """Draw the mean of the risks and their variance over (θ₁, θ₂), side by side, with their minimisers.

    Args:
        result: from ``run_toy``; the surfaces are those of its first repeat, without a spread of E[x¹²].
        path: the file to write: .png, .svg or .pdf.
        reading: which reading of Section 3.1 to draw.
        sigma: which of the result's σ to draw; the middle one if not given.
        dpi: dots per inch of a PNG.

    Returns:
        The path written.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise GraphshiftError(f"path is {str(path)!r}; expected a name that ends in {', '.join(SUFFIXES)}.")
    case = _choose(result, reading, sigma)

    require_extra("matplotlib", "drawing figures")
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap, LogNorm
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    pale = LinearSegmentedColormap.from_list("pale", colormaps["Blues"](np.linspace(0, 0.65, 64)))

    theta1, theta2 = np.linspace(*THETA1, POINTS), np.linspace(*THETA2, POINTS)
    mean, variance = np.empty((POINTS, POINTS)), np.empty((POINTS, POINTS))
    for row, value in enumerate(theta2):
        theta = torch.from_numpy(np.stack([theta1, np.full(POINTS, value)], axis=1))
        risks = case.sample(theta)
        mean[row], variance[row] = risks.mean(dim=1).numpy(), risks.var(dim=1).numpy()

    figure = Figure(figsize=(11, 4.9), layout=ConstrainedLayoutEngine(wspace=0.06))
    left, right = figure.subplots(1, 2, sharey=True)
    figure.suptitle(
        f"{'The proof' if reading == 'proof' else 'The text'}’s process, σ = {case.sigma:g}: "
        "the variance asks for θ₂ = 0 and accepts every θ₁; the mean picks θ₁"
    )
    levels = mean.min() + (mean.max() - mean.min()) * np.linspace(0, 1, 13) ** 2
    surface = left.contourf(theta1, theta2, mean, levels=levels, cmap=pale)
    left.contour(theta1, theta2, mean, levels=levels, colors="#6B8BB0", linewidths=0.5)
    figure.colorbar(surface, ax=left, format="%.2f", label="mean of the risks", shrink=0.9, pad=0.02)
    left.set_title("Mean: one minimiser, and it uses θ₂", fontsize=11)

    decades = 10.0 ** np.arange(-7, np.ceil(np.log10(variance.max())) + 1)
    surface = right.contourf(
        theta1, theta2, np.maximum(variance, decades[0]), levels=decades, norm=LogNorm(), cmap=pale
    )
    figure.colorbar(surface, ax=right, label="variance of the risks", shrink=0.9, pad=0.02)
    right.set_title("Variance: every [θ₁, 0] minimises it", fontsize=11)

    _mark_mean(left, case)
    _mark_variance(right, case)
    for axes in (left, right):
        _mark_path(axes, case)
        axes.set(xlim=THETA1, ylim=THETA2, xlabel="θ₁, the invariant feature’s weight")
    left.set_ylabel("θ₂, the spurious feature’s weight")
    handles = {
        label: handle for axes in (left, right) for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi)
    return path


def _choose(result: ToyResult, reading: Reading, sigma: float | None) -> ToyCase:
    if all(case.spread for case in result.cases):
        raise GraphshiftError("the figure shows Section 3.1's process; run_toy needs 0 among its spreads for it.")
    cases = [case for case in result.cases if case.reading == reading and not case.spread]
    if not cases:
        raise GraphshiftError(
            f"reading is {reading!r}; expected one of {', '.join(sorted({case.reading for case in result.cases}))}."
        )
    if sigma is None:
        return cases[len(cases) // 2]
    for case in cases:
        if case.sigma == sigma:
            return case
    raise GraphshiftError(f"sigma is {sigma}; expected one of the result's: {[case.sigma for case in cases]}.")


def _mark_mean(axes: Axes, case: ToyCase) -> None:
    learned = next(learned for learned in case.learned if learned.objective == "erm")
    axes.plot(*learned.theta, "o", color=ORANGE, markersize=10, label="learned by ERM", zorder=5)
    if case.reading == "text":
        axes.plot(*erm_optimum(case.expected), "+", color=BLACK, markersize=13, label="ERM’s closed form", zorder=6)
    axes.plot(*proposition_1(case.sigma), "x", color=BLACK, markersize=9, label="Proposition 1’s closed form", zorder=6)


def _mark_variance(axes: Axes, case: ToyCase) -> None:
    axes.axhline(0, color=ORANGE, linewidth=2, linestyle="--", label="variance 0: the whole line θ₂ = 0")
    for learned in case.learned:
        if learned.objective == "variance":
            axes.annotate(
                "", learned.theta, learned.start, arrowprops={"arrowstyle": "->", "color": ORANGE, "linewidth": 1.2}
            )
            axes.plot(
                *learned.theta, "s", color=ORANGE, markersize=8, label="learned by the variance alone …", zorder=5
            )
            axes.plot(*learned.start, "o", color=ORANGE, fillstyle="none", markersize=6, label="… and its starts")


def _mark_path(axes: Axes, case: ToyCase) -> None:
    """EERM's minimiser for all β, from ERM's (β → ∞) to [1, 0] (β → 0)."""
    path = np.array([eerm_optimum(case.expected, beta) for beta in np.logspace(-8, 4, 200)])
    axes.plot(*path.T, color=GREEN, linewidth=2, label="EERM’s minimiser for every β > 0")
    for beta in LABELLED_BETAS:
        point = eerm_optimum(case.expected, beta)
        axes.plot(*point, "o", color=GREEN, markersize=4)
        axes.annotate(f"β = {beta:g}", point, (7, 2), textcoords="offset points", color=GREEN, fontsize=8)
    for learned in case.learned:
        if learned.objective == "eerm":
            axes.plot(*learned.theta, "D", color=GREEN, fillstyle="none", markersize=8, label="learned by EERM")
    axes.plot(1, 0, "*", color=BLACK, markersize=13, label="[1, 0], Proposition 2’s only minimiser", zorder=6)
