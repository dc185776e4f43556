"""A comparison: lowest eigenvalue, overlap, phi and gap against alpha for several N, with both theories."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from bbp.analysis.comparison import PARTS, Comparison, has_theory_n
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots


def compare_figure(comparison: Comparison, *, width: str = "double") -> Figure:
    """Four panels against alpha: lowest eigenvalue, q2, phi, gap. Black and grey: N = infinity.

    Points: samples with bootstrap errors (phi: 95 % intervals); lines and bands in the colour of an N: finite-N theory, mean,
    its standard error and, wide, one standard deviation of a draw.
    """
    shown = has_theory_n(comparison)
    with style.figure_style():
        fig = style.new_figure(width, 5.0 if width == "double" else 8.6)
        shape = (2, 2) if width == "double" else (4, 1)
        axes = layout.lettered(list(np.ravel(fig.subplots(*shape))))
        layout.theory_lines(axes[0], axes[1], comparison)
        for index, n in enumerate(comparison.n):
            for ax, name in zip(axes, ("lowest", "overlap", "phi_group", "gap"), strict=True):
                measured(ax, comparison, name, index, label=f"$N = {n}$")
            if shown and comparison.theory_n is not None:
                at_n = comparison.theory_n
                draws = comparison.config.get("draws") or np.inf  # older files: a line without its error
                error = np.sqrt(at_n.present * (1 - at_n.present) / draws)
                curves = (
                    (at_n.lowest, at_n.lowest_std, at_n.lowest_error),
                    (at_n.overlap, at_n.overlap_std, at_n.overlap_error),
                    (at_n.present, np.zeros_like(error), error),
                )
                for ax, rows in zip(axes, curves, strict=False):
                    sweep_plots.finite_band(ax, comparison.alpha, *(row[index] for row in rows), index=index)
        if shown:
            sweep_plots.name_bands(axes[0])
            axes[0].plot(
                [], [], color=style.GREY, linewidth=1.0, label="finite-$N$ theory, colour of its $N$"
            )
        layout.name_model(axes[1], comparison.model)
        sweep_plots.name_lack(axes[0], comparison.alpha_bbp, comparison.kind)
        names = (
            r"lowest eigenvalue $\lambda_1$",
            r"squared overlap $q^2$",
            r"$\phi$ of the $p\,p^*$ lowest",
            r"gap $\lambda_{p\,p^*+1} - \lambda_{p\,p^*}$",
        )
        for ax, name in zip(axes, names, strict=True):
            sweep_plots.mark_threshold(ax, comparison.alpha_bbp, comparison.kind)
            ax.set_xlabel(r"$\alpha = M/N$")
            ax.set_ylabel(name)
        layout.legend_above(fig, axes, 4 if width == "double" else 2)
    return fig


def measured(ax: Axes, comparison: Comparison, name: str, index: int, *, label: str) -> ErrorbarContainer:
    """One observable of one size with its bootstrap errors, a share (phi) with its 95 % interval."""
    value, error, low, high = (comparison.measured[name][part][index] for part in PARTS)
    if name.startswith("phi"):
        error = np.stack([value - low, high - value])
    return sweep_plots.points(ax, comparison.alpha, value, error, index=index, label=label)
