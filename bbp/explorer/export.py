"""The explorer in one file: curves on a grid, interpolated in the browser; no server, no network.

Along alpha the grid is that of s = alpha/alpha_BBP, so that outliers begin at s = 1 whatever the model. The density is kept at
shares of its mass, which move with the spectrum (`curves.shares`): the logarithms of distance from the edge and of height at
node k are interpolated side by side, by cubics in log a and in log s.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.resources import Resources
from numpy.typing import NDArray

from bbp.console.messages import Progress
from bbp.explorer import curves, figures, page
from bbp.explorer.answer import PHASES, all_but_diagram, empty
from bbp.explorer.state import BY_NAME, COMMANDS, LINES, Control, State, text_of
from bbp.files import disk
from theory.checks import ParameterError
from theory.exact.bulk import edge_resolvent
from theory.exact.transition import alpha_zero_map, critical_normalisation, threshold_map
from theory.general.density import density
from theory.general.spectrum import solve, spectrum, threshold
from theory.model import Network

Array = NDArray[np.float64]
SPECTRA, STEPS = ("log_distance", "log_density"), 65535


@dataclass(frozen=True)
class Grid:
    """What an exported page holds.

    widths, teachers   the p and p_star it knows
    a_range            ends of the values of a: `models` of them have spectra, `curves` curves over alpha, `fine` thresholds
    ratios             alpha/alpha_BBP of the spectra, with 1
    branch             the same of the curves over alpha, 1 twice: without outlier, and with
    nodes              of a spectrum
    checks             models between grid points at which the interpolation is measured
    """

    widths: tuple[float, ...] = (1, 2, 3, 4, 8, 32, math.inf)
    teachers: tuple[int, ...] = (1, 2)
    a_range: tuple[float, float] = (0.03, 10.0)
    models: int = 20
    curves: int = 120
    fine: int = 400
    ratios: tuple[float, ...] = (0.2, 0.3, 0.42, 0.55, 0.7, 0.85, 1.0, 1.2, 1.45, 1.8, 2.2, 2.7, 3.3, 4.0)
    nodes: int = 84
    checks: int = 60

    @property
    def branch(self) -> Array:
        """alpha/alpha_BBP of the curves."""
        below, beyond = np.linspace(0.2, 1, 18), 1 + 3 * np.linspace(0, 1, 34) ** 2
        return np.concatenate([below, beyond])

    @property
    def a(self) -> Array:
        """Values of a that have spectra."""
        return np.geomspace(*self.a_range, self.models)

    @property
    def a_curves(self) -> Array:
        """Values of a that have curves over alpha."""
        return np.geomspace(*self.a_range, self.curves)

    @property
    def a_fine(self) -> Array:
        """Values of a that have thresholds."""
        return np.geomspace(*self.a_range, self.fine)

    @property
    def pairs(self) -> list[tuple[float, int]]:
        """(p, p_star) in the order in which arrays hold them."""
        return [(p, p_star) for p in self.widths for p_star in self.teachers]


def export(path: str, *, force: bool = False, grid: Grid | None = None) -> int:
    """Write the page to `path`; its size in bytes. Raises ParameterError if the file is there and not to be replaced."""
    target = Path(path)
    disk.require_free(target, force=force)
    if not target.parent.is_dir():
        raise ParameterError(f"there is no folder {str(target.parent)!r}")
    content = render(grid or Grid()).encode()
    disk.write_bytes(target, content)
    return len(content)


def render(grid: Grid) -> str:
    """The page as HTML."""
    tables = dict(computed(grid))
    errors = accuracy(grid, tables)
    state = State()
    doc, board = Document(), figures.board(grid.widths, live=False)
    first = all_but_diagram(state)
    first.sources["present"] = {"a": [state.a], "row": [float(grid.widths.index(state.p))]}
    first.sources["phases"] = {"image": [np.zeros((len(grid.widths), grid.fine), dtype=np.uint8)]}
    first.sources |= {name: empty(name) for name in ("a_c", "thresholds")}
    board.show(first)
    phases = board.figures["phases"]
    phases.x_range.update(start=grid.a_range[0], end=grid.a_range[1])
    for renderer in phases.renderers:
        if hasattr(renderer.glyph, "dw"):
            renderer.glyph.update(x=grid.a_range[0], dw=grid.a_range[1] - grid.a_range[0])
    board.attach(doc, "bbpGrid.start(figures, sources, lines)")
    library = Resources(mode="inline", components=["bokeh"])
    scripts = "".join(f"<script>{code}</script>" for code in library.js_raw)
    held = f"<script>{page.text('grid.js')}\nbbpGrid.held = {json.dumps(packed(grid, tables))};</script>"
    page.fill(
        doc,
        state,
        first.words,
        bokeh_script=scripts + held,
        controls=controls(grid),
        widths=grid.widths,
        holds=holds(grid, errors),
    )
    return file_html(
        doc,
        resources=Resources(mode="inline"),
        title="Hessian BBP explorer",
        template=doc.template,
        template_variables=doc.template_variables,
    )


def controls(grid: Grid) -> list[Control]:
    """The controls of an exported page: those of the live one, within what the file holds."""
    low, high = grid.a_range
    return [
        replace(
            BY_NAME["p"],
            stops=grid.widths,
            low=min(grid.widths),
            high=max(w for w in grid.widths if w < math.inf),
        ),
        replace(BY_NAME["p_star"], stops=grid.teachers, low=min(grid.teachers), high=max(grid.teachers)),
        replace(BY_NAME["a"], low=low, high=high, slider=grid.a_range),
        replace(BY_NAME["alpha"], slider=(0.1, 20.0)),
    ]


def computed(grid: Grid) -> Iterator[tuple[str, Array]]:
    """Arrays by name, the leading axis over grid.pairs: thresholds (pair, fine), branches (pair, curves, branch), spectra
    (pair, models, ratio, node)."""
    p, p_star = (np.array(values, dtype=np.float64)[:, None] for values in zip(*grid.pairs, strict=True))
    found = threshold_map(p, p_star, grid.a_fine)
    yield "alpha_bbp", found.alpha
    yield "jump", found.jump
    yield "alpha_0", alpha_zero_map(p, p_star, grid.a_fine)
    yield "a_c", np.asarray(critical_normalisation(p[:, 0], p_star[:, 0]))
    branches = np.empty((3, len(grid.pairs), grid.curves, len(grid.branch)))
    spectra = np.empty((2, len(grid.pairs), grid.models, len(grid.ratios), grid.nodes))
    with Progress(len(grid.pairs) * (grid.curves + grid.models), unit="models") as progress:
        for index, (width, teacher) in enumerate(grid.pairs):
            for column, a in enumerate(grid.a_curves):
                model = Network(width, teacher, float(a))
                branches[:, index, column] = _branch(model, threshold(model).alpha * grid.branch)
                progress.advance()
            for column, a in enumerate(grid.a):
                model = Network(width, teacher, float(a))
                for row, ratio in enumerate(grid.ratios):
                    alpha = ratio * threshold(model).alpha
                    spectra[:, index, column, row] = np.log(curves.shares(model, alpha, grid.nodes))
                progress.advance()
    yield from zip(("edge", "outlier", "overlap"), branches, strict=True)
    yield from zip(SPECTRA, spectra, strict=True)


def _branch(model: Network, alpha: Array) -> Array:
    """Edge, outlier, overlap (3, n) at alpha, where the threshold stands twice; the outlier is the edge where there is none."""
    middle = int(np.flatnonzero(np.diff(alpha) == 0)[0])
    alpha = alpha.copy()
    alpha[middle + 1] *= 1 + 1e-9
    found = spectrum(model, alpha)
    bound = np.arange(alpha.size) <= middle
    outside = np.where(bound | np.isnan(found.outlier), found.edge, found.outlier)
    return np.array([found.edge, outside, np.where(bound, 0.0, np.nan_to_num(found.overlap))])


def packed(grid: Grid, tables: dict[str, Array]) -> dict[str, Any]:
    """Everything the page's script reads: arrays in base64, float32; spectra as 16-bit steps between the ends of each row."""
    arrays: dict[str, str] = {}
    for name, values in tables.items():
        if name in SPECTRA:
            low, high = values.min(axis=-1, keepdims=True), values.max(axis=-1, keepdims=True)
            steps = np.rint((values - low) / np.maximum(high - low, 1e-300) * STEPS)
            arrays |= {f"{name}_steps": _base64(steps, "<u2"), f"{name}_ends": _base64([low, high], "<f4")}
        else:
            arrays[name] = _base64(values, "<f4")
    return {
        "widths": [text_of(p) for p in grid.widths],
        "teachers": list(grid.teachers),
        "a": grid.a.tolist(),
        "a_curves": grid.a_curves.tolist(),
        "a_fine": grid.a_fine.tolist(),
        "ratios": list(grid.ratios),
        "branch": grid.branch.tolist(),
        "nodes": grid.nodes,
        "arrays": arrays,
        "commands": COMMANDS,
        "lines": LINES,
        "phases": [PHASES[code] for code in sorted(PHASES)],
        "n": State().n,
    }


def _base64(values: Any, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")


def accuracy(grid: Grid, tables: dict[str, Array]) -> dict[str, float]:
    """Largest deviations from theory between grid points: of alpha_BBP (relative), edge, outlier (relative to the edge), q2."""
    rng = np.random.default_rng(0)
    worst = dict.fromkeys(("alpha_bbp", "edge", "outlier", "overlap"), 0.0)
    misplaced: list[float] = []
    for _ in range(grid.checks):
        pair = int(rng.integers(len(grid.pairs)))
        a = float(np.exp(rng.uniform(*np.log(grid.a_range))))
        model = Network(*grid.pairs[pair], a)
        start = threshold(model).alpha
        held = math.exp(np.interp(math.log(a), np.log(grid.a_fine), np.log(tables["alpha_bbp"][pair])))
        alpha = held * float(rng.uniform(grid.branch[0], grid.branch[-1]))
        here = solve(model, alpha)
        edge, out = here.bulk, here.pulled
        exact = {
            "edge": edge.value,
            "outlier": out[0].value if out else edge.value,
            "overlap": out[0].overlap if out else 0.0,
        }
        worst["alpha_bbp"] = max(worst["alpha_bbp"], abs(held / start - 1))
        for name, value in exact.items():
            units = 1.0 if name == "overlap" else max(abs(edge.value), abs(1 / edge_resolvent(model, alpha)))
            found = _interpolated(grid, tables[name][pair], a, alpha / held)
            worst[name] = max(worst[name], abs(found - value) / units)
        if alpha / held <= grid.ratios[-1]:
            misplaced.append(_misplaced(grid, tables, pair, model, alpha / held))
    return worst | {"density": float(np.max(misplaced)), "density_median": float(np.median(misplaced))}


def _misplaced(grid: Grid, tables: dict[str, Array], pair: int, model: Network, ratio: float) -> float:
    """Share of the mass that the interpolated density puts in the wrong place: integral |rho - exact| / integral exact."""
    i, w = cubic(np.log(grid.a), math.log(model.a))
    j, v = cubic(np.log(grid.ratios), math.log(ratio))
    distance, rho = (
        np.concatenate([[0.0], np.exp(np.einsum("i,j,ijk->k", w, v, tables[name][pair][i, j]))])
        for name in SPECTRA
    )
    rho[0] = 0.0
    alpha = ratio * threshold(model).alpha
    lam = solve(model, alpha).edge + distance
    exact = np.nan_to_num(density(model, alpha, lam), posinf=0.0)
    return float(np.trapezoid(np.abs(rho - exact), lam) / np.trapezoid(exact, lam))


def cubic(points: Array, value: float) -> tuple[slice, Array]:
    """The four of the rising points about `value`, and the weights of the cubic through them."""
    first = int(np.clip(np.searchsorted(points, value, side="right") - 2, 0, len(points) - 4))
    near = points[first : first + 4]
    weights = [np.prod([(value - x) / (at - x) for x in near if x != at]) for at in near]
    return slice(first, first + 4), np.array(weights)


def _interpolated(grid: Grid, table: Array, a: float, ratio: float) -> float:
    """`table` (a, branch) at (a, alpha/alpha_BBP), linear in log a and in the ratio: what the page's script does."""
    middle = int(np.flatnonzero(np.diff(grid.branch) == 0)[0]) + 1
    part = slice(0, middle) if ratio <= 1 else slice(middle, None)
    columns = [float(np.interp(ratio, grid.branch[part], row[part])) for row in table]
    return float(np.interp(math.log(a), np.log(grid.a_curves), columns))


def holds(grid: Grid, errors: dict[str, float]) -> list[str]:
    """What the page says about itself."""
    widths = ", ".join("∞" if math.isinf(p) else f"{p:g}" for p in grid.widths)
    low, high = grid.a_range
    return [
        f"Theory at N = ∞ for p = {widths} and p* = {', '.join(map(str, grid.teachers))}, a from {low:g} to {high:g}, α from "
        f"{grid.branch[0]:g} to {grid.branch[-1]:g} times α_BBP; no samples and no finite N, for which there is bbp explore.",
        f"Spectra were computed at {grid.models} values of a, curves over α at {grid.curves}, thresholds at {grid.fine}; "
        f"the page interpolates, and shows three digits. Measured against "
        f"theory at {grid.checks} points between them, the largest deviations are: α_BBP {errors['alpha_bbp']:.1e} (relative), "
        f"edge {errors['edge']:.1e} and outlier {errors['outlier']:.1e} (relative to their size), q² {errors['overlap']:.1e}, "
        f"density {errors['density']:.1e} (share of mass misplaced; median {errors['density_median']:.1e}).",
    ]
