"""A comparison: lowest eigenvalue, overlap, phi and gap against alpha for several N, with both theories."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from bbp.analysis.comparison import has_theory_n
from bbp.analysis.summary import own_names
from bbp.experiments import models
from bbp.files import dataset
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots
from theory.finite.validity import UNKNOWN, doubts

# Observables and what their axes say.
PANELS = {
    "lowest": r"lowest eigenvalue $\lambda_1$",
    "overlap": r"squared overlap $q^2$",
    "phi_group": r"$\phi$ of the $p\,p^*$ lowest",
    "gap": r"gap $\lambda_{p\,p^*+1} - \lambda_{p\,p^*}$",
}


def compare_figure(comparison: xr.Dataset, *, width: str = "double") -> Figure:
    """Panels against alpha: lowest eigenvalue, q2, phi, gap, observables of one's own. Black and grey: N = infinity.

    Points: samples with bootstrap errors (phi: 95 % intervals); lines and bands in the colour of an N: finite-N theory, mean,
    its standard error and, wide, one standard deviation of a draw.
    """
    with style.figure_style():
        names = [*PANELS, *own_names(comparison)]
        rows = -(-len(names) // 2) if width == "double" else len(names)
        fig = style.new_figure(width, 0.4 + 2.3 * rows if width == "double" else 0.4 + 2.05 * rows)
        grid = list(np.ravel(fig.subplots(rows, 2 if width == "double" else 1)))
        for ax in grid[len(names) :]:
            ax.remove()
        axes = layout.lettered(grid[: len(names)])
        layout.theory_lines(axes[0], axes[1], comparison)
        for ax, name in zip(axes, names, strict=True):
            panel(ax, comparison, name)
        if has_theory_n(comparison):
            sweep_plots.name_bands(axes[0])
            axes[0].plot(
                [], [], color=style.GREY, linewidth=1.0, label="finite-$N$ theory, colour of its $N$"
            )
            if doubts(models.of(comparison), comparison.alpha.values, comparison.n.values):
                axes[0].plot([], [], " ", label=UNKNOWN)
        layout.name_model(axes[1], models.of(comparison))
        sweep_plots.name_lack(axes[0], comparison.alpha_bbp, comparison.kind)
        layout.legend_above(fig, axes, 4 if width == "double" else 2)
    return fig


def panel(ax: Axes, comparison: xr.Dataset, name: str) -> None:
    """One observable of every N against alpha, with finite-N theory."""
    for index, n in enumerate(comparison.n.values):
        measured(ax, comparison, name, index, label=f"$N = {n}$")
        if has_theory_n(comparison) and f"theory_n_{name}" in comparison:
            rows = [
                comparison[f"theory_n_{name}{part}"].values[index]
                for part in ("", "_std", "_error")
                if name != "phi_group" or not part
            ]
            if name == "phi_group":
                draws = (
                    dataset.config(comparison).get("draws") or np.inf
                )  # older files: a line without its error
                rows += [np.zeros_like(rows[0]), np.sqrt(rows[0] * (1 - rows[0]) / draws)]
            sweep_plots.finite_band(ax, comparison.alpha.values, *rows, index=index)
    sweep_plots.mark_threshold(ax, comparison.alpha_bbp, comparison.kind)
    ax.set_xlabel(r"$\alpha = M/N$")
    ax.set_ylabel(PANELS[name] if name in PANELS else layout.words_of(comparison, name))


def measured(ax: Axes, comparison: xr.Dataset, name: str, index: int, *, label: str) -> ErrorbarContainer:
    """One observable of one size with its bootstrap errors, a share (phi) with its 95 % interval."""
    value, error, low, high = (
        comparison[f"{name}{part}"].values[index] for part in ("", "_error", "_low", "_high")
    )
    if name.startswith("phi"):
        error = np.stack([value - low, high - value])
    return sweep_plots.points(ax, comparison.alpha.values, value, error, index=index, label=label)
