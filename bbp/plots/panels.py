"""The panels of a result, each on axes of one's own: what `bbp.plot(dataset, ax)` draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from bbp.analysis.summary import own_names
from bbp.experiments import models
from bbp.experiments.phase_file import widths
from bbp.files import dataset
from bbp.plots import compare, descent
from bbp.plots import phase as phase_plots
from bbp.plots import sweep as sweep_plots
from theory.checks import ParameterError, choice

Panel = Callable[[Axes], object]


def panels(found: xr.Dataset) -> dict[str, Panel]:
    """What draws each panel of the figure of a result, by its letter there; ParameterError for what has no panels."""
    form = str(found.attrs.get("format"))
    if form not in PANELS:
        raise ParameterError(
            f"a {form} result has no panels: sweeps, phase diagrams, comparisons and descents have"
        )
    if "model" in found.dims:
        raise ParameterError(
            f"choose one of {found.sizes['model']} models: bbp.files.product.one(dataset, index)"
        )
    return dict(zip("abcdefghijklmnopqrstuvwxyz", PANELS[form](found), strict=False))


def draw(found: xr.Dataset, ax: Axes, panel: str = "a") -> list[Artist]:
    """Draw one panel of a result on `ax`; the artists that this adds."""
    each = panels(found)
    choice("panel", panel, list(each))
    before = set(map(id, ax.get_children()))
    each[panel](ax)
    return [artist for artist in ax.get_children() if id(artist) not in before]


def _sweep(found: xr.Dataset) -> list[Panel]:
    drawn: list[Panel] = [
        lambda ax: sweep_plots.sweep_panels(ax, None, found),
        lambda ax: sweep_plots.sweep_panels(None, ax, found),
        *(partial(sweep_plots.quantity_panel, sweeps=found, name=name) for name in own_names(found)),
    ]
    return [partial(_against_alpha, each) for each in drawn]


def _against_alpha(draw: Panel, ax: Axes) -> None:
    draw(ax)
    ax.set_xlabel(r"$\alpha = M/N$")


def _phase(found: xr.Dataset) -> list[Panel]:
    lines, network = widths(found), bool(models.special(dataset.config(found)))
    cuts: list[Panel] = [partial(_cut, lines, index, network) for index in range(lines.sizes["a"])]
    sizes = range(found.sizes["finite_a"] if "alpha_bbp_n" in found else 0)
    finite: list[Panel] = [partial(_finite, found, index) for index in sizes]
    times: list[Panel] = [partial(_time, found, index) for index in range(len(cuts)) if "bbp_time" in found]
    minima: list[Panel] = [
        partial(_minima, found, index) for index in range(len(cuts)) if "minima_kind" in found
    ]
    return [lambda ax: phase_plots.threshold_panel(ax, found), *cuts, *finite, *times, *minima]


def _cut(lines: xr.Dataset, index: int, network: bool, ax: Axes) -> None:
    phase_plots.widths_panel(ax, lines, index, network=network)
    ax.set_xlabel(r"student width $p$")


def _finite(found: xr.Dataset, index: int, ax: Axes) -> None:
    phase_plots.finite_panel(ax, found, index)


def _time(found: xr.Dataset, index: int, ax: Axes) -> None:
    phase_plots.time_panel(ax, found, index)


def _minima(found: xr.Dataset, index: int, ax: Axes) -> None:
    phase_plots.minima_panel(ax, found, index)


def _compare(found: xr.Dataset) -> list[Panel]:
    return [partial(_observable, found, name) for name in (*compare.PANELS, *own_names(found))]


def _observable(found: xr.Dataset, name: str, ax: Axes) -> None:
    compare.panel(ax, found, name)
    sweep_plots.theory_lines(ax if name == "lowest" else None, ax if name == "overlap" else None, found)


def _descent(found: xr.Dataset) -> list[Panel]:
    n, first, chosen = int(found.n[-1]), str(found.start.values[0]), descent.spread_alphas(found)
    drawn: list[Panel] = [lambda ax: descent.final_panel(ax, found)]
    drawn.append(lambda ax: descent.path_curves(ax, found, n, first, chosen))
    if found.sizes["hessian_step"]:
        drawn.append(lambda ax: descent.eigenvector_curves(ax, found, n, first, chosen))
    if found.sizes["hessian_step"] and descent.has_theory(found):
        drawn.append(lambda ax: descent.eigenvalue_curves(ax, found, n, first, chosen))
    return drawn


PANELS: Mapping[str, Callable[[xr.Dataset], list[Panel]]] = {
    "bbp-sweep": _sweep,
    "bbp-phase": _phase,
    "bbp-compare": _compare,
    "bbp-descent": _descent,
}
