"""A comparison: lowest eigenvalue, overlap, phi and gap against alpha for several N, with both theories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from bbp.analysis.summary import has_theory_n
from bbp.experiments import models
from bbp.files import dataset
from bbp.plots import layout, style
from bbp.plots import sweep as sweep_plots
from theory.finite.law import doubts

# Observables and what their axes say.
PANELS = {
    "lowest": r"lowest eigenvalue $\lambda_1$",
    "overlap": r"squared overlap $q^2$",
    "phi_group": r"$\phi$ of the $p\,p^*$ lowest",
    "gap": r"gap $\lambda_{p\,p^*+1} - \lambda_{p\,p^*}$",
}


def compare_figure(comparisons: xr.Dataset | Mapping[str, xr.Dataset], *, width: str = "double") -> Figure:
    """Panels against alpha: lowest eigenvalue, q2, phi, gap, observables of one's own. Black and grey: N = infinity.

    Points: samples with bootstrap errors (phi: 95 % intervals); lines and bands in the colour of an N: finite-N theory, mean,
    its standard error and, wide, one standard deviation of a draw. Several comparisons are told apart by their names.
    """
    return layout.filled(panels(comparisons), width, 0.4, 2.3 if width == "double" else 2.05)


def panels(comparisons: xr.Dataset | Mapping[str, xr.Dataset]) -> list[Callable[[Axes], list[Artist]]]:
    """What draws each panel of the figure of comparisons, in order."""
    sources = sweep_plots.named(comparisons)
    names = [*PANELS, *sweep_plots.common_names(sources)]
    return [partial(panel, comparisons=sources, name=name) for name in names]


def draws_of(comparison: xr.Dataset) -> int:
    """Draws of its finite-N theory; 0 where it does not say."""
    return int(dataset.config(comparison).get("draws") or 0)


@style.added
def panel(ax: Axes, comparisons: xr.Dataset | Mapping[str, xr.Dataset], name: str) -> None:
    """One observable of every N against alpha, with theory."""
    sources = sweep_plots.named(comparisons)
    sweep_plots.theory_lines(ax, sources, name)
    for comparison, row, size, look in sweep_plots.each_size(sources):
        measured(ax, comparison, name, row, label=size, **look)
        if has_theory_n(comparison) and f"theory_n_{name}" in comparison:
            _finite(ax, comparison, name, row, look)
        if "theory_n_verdict" in comparison and name in ("lowest", "overlap"):
            sweep_plots.judged_points(ax, comparison, name, row)
    sweep_plots.mark_thresholds(ax, sources)
    ax.set_xlabel(sweep_plots.ALPHA)
    ax.set_ylabel(PANELS[name] if name in PANELS else layout.words_of(next(iter(sources.values())), name))
    if name == "lowest":
        finite = [one for one in sources.values() if has_theory_n(one)]
        said = [doubts(models.of(one), one.alpha.values, one.n.values) for one in finite]
        sweep_plots.name_finite(ax, sources, [draws_of(one) for one in finite], said, shared=True)
        sweep_plots.name_lack(ax, sources)
    elif name == "overlap":
        layout.title(ax, sweep_plots.model_title(sources))


def _finite(ax: Axes, comparison: xr.Dataset, name: str, row: int, look: Mapping[str, Any]) -> None:
    """Finite-N theory of one observable of one size; of a share (phi) with its own error and no scatter."""
    parts = ("",) if name == "phi_group" else ("", "_std", "_error")
    rows, draws = [comparison[f"theory_n_{name}{part}"].values[row] for part in parts], draws_of(comparison)
    if name == "phi_group":
        # older files do not say how many draws: a line without its error
        rows += [np.zeros_like(rows[0]), np.sqrt(rows[0] * (1 - rows[0]) / (draws or np.inf))]
    sweep_plots.finite_band(
        ax, comparison.alpha.values, *rows, draws=draws, low=-np.inf if name == "lowest" else 0.0, **look
    )


def measured(
    ax: Axes,
    comparison: xr.Dataset,
    name: str,
    row: int,
    *,
    label: str,
    index: int | None = None,
    count: int = 0,
) -> ErrorbarContainer:
    """One observable of one size, number `row`, with its bootstrap errors, a share (phi) with its 95 % interval.

    index   of its colour and marker, of `count`; that of the row where not given
    """
    value, error, low, high = (
        comparison[f"{name}{part}"].values[row] for part in ("", "_error", "_low", "_high")
    )
    if name.startswith("phi"):
        error = np.stack([value - low, high - value])
    look: dict[str, Any] = {"index": row if index is None else index, "count": count, "label": label}
    return sweep_plots.points(ax, comparison.alpha.values, value, error, **look)
