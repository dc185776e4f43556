"""The spectrum at one alpha as a figure needs it: density of states, edge, outlier, and eigenvalues of samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bbp.experiments import models
from bbp.files.variables import DONE
from theory.answers import Edge, Outlier, Prediction
from theory.checks import ParameterError
from theory.finite.quenched import quenched
from theory.general.density import density_curve
from theory.general.spectrum import route
from theory.given import population
from theory.given.hessian import bulk_density
from theory.model.network import Network

Array = NDArray[np.float64]

POINTS = 240  # of the density
MASS = 0.8  # of the bulk of a committee that the figure shows; the rest is a long tail to the right
NETWORK_MASS = 0.95  # the same, of any other network
# Of rows of one's own:
MOST, DRAWN = 4000, 4  # order of a whole Hessian, and how many are drawn
ROWS_POINTS, REACH = 400, 0.97  # places of a density, up to this share of the eigenvalues
TAIL = 1e-4  # of the largest density: below it nothing is drawn left of the bulk


@dataclass(frozen=True)
class Pool:
    """Lowest eigenvalues (sample, eigenpair) of sampled Hessians of `size` rows, at input dimension n.

    residuals (sample, eigenpair) of the pairs, where known; eps is that of the dtype they were computed in
    """

    eigenvalues: Array
    n: int
    size: int
    residuals: Array | None = None
    eps: float = float(np.finfo(np.float64).eps)

    @property
    def null(self) -> NDArray[np.bool_]:
        """Which eigenvalues (sample, eigenpair) are zero as far as can be told, and belong to the atom: those within their
        residual, which bounds the error of an eigenvalue, and within the rounding of their dtype, eps times the order at most,
        of the largest known."""
        size = np.abs(self.eigenvalues)
        error = self.eps * self.size * size.max()
        return size <= error + (0 if self.residuals is None else self.residuals)

    @property
    def total(self) -> int:
        """Number of all eigenvalues of these Hessians."""
        return self.size * len(self.eigenvalues)

    @property
    def complete_below(self) -> float:
        """Up to here every eigenvalue of every sample is known."""
        return math.inf if self.eigenvalues.shape[1] == self.size else float(self.eigenvalues[:, -1].min())

    def histogram(
        self, left: float, right: float, *, per_bin: int, fewest: int, most: int
    ) -> tuple[Array, Array]:
        """Ends of bins (k + 1,) between two eigenvalues and the density of states in each (k,), without the atom.

        Bins have `per_bin` eigenvalues on average, but there are `fewest` to `most`; kept as far as every eigenvalue is known.
        """
        values = self.eigenvalues[~self.null]
        inside = np.count_nonzero((values >= left) & (values <= right))
        ends = np.linspace(left, right, int(np.clip(inside / per_bin, fewest, most)) + 1)
        heights = np.histogram(values, ends)[0] / (self.total * np.diff(ends))
        known = int(np.count_nonzero(ends[1:] <= self.complete_below))
        return ends[: known + 1], heights[:known]


@dataclass(frozen=True)
class Spectrum:
    """Theory at one alpha: density rho (lambda,) at lam (lambda,), the atom at 0, left edge and outliers; and samples.

    edge      of value NaN where the weights are unbounded below
    outliers  lowest first, students' own among them; their overlaps are those with the teacher
    verdict   of inputs of one's own: the law of the rows by which there is a density, or neither
    """

    model: Network
    alpha: float
    lam: Array
    rho: Array
    atom: float
    edge: Edge
    outliers: tuple[Outlier, ...] = ()
    pool: Pool | None = None
    verdict: str = ""

    @property
    def start(self) -> float:
        """Where the bulk begins: its edge, or the first place of the density where it has none."""
        return float(self.edge.value) if np.isfinite(self.edge.value) else float(self.lam.min())


def of_model(model: Network, alpha: float, pool: Pool | None = None) -> Spectrum:
    """The theory's spectrum from left of everything to where `MASS` of the bulk is reached.

    Raises ParameterError where the density of the model is not known, with the reason.
    """
    if model.inputs is not None:
        return _of_rows(model, alpha, pool)
    points = POINTS // 2 if route(model) == "points" else POINTS
    curve = density_curve(model, alpha, points, MASS if model.is_committee else NETWORK_MASS)
    found = curve.spectrum
    edge = Edge(found.edge, found.kind)
    columns = found.outliers, found.overlaps * found.teacher_share, found.multiplicity
    marks = [Outlier(float(v), float(q), multiplicity=many) for v, q, many in zip(*columns, strict=True)]
    return Spectrum(model, alpha, curve.lam, curve.rho, curve.atom, edge, tuple(marks), pool)


def of_sweep(sweep: xr.Dataset, alpha: float) -> Spectrum:
    """Theory of the sweep's model at alpha, with the eigenvalues of its largest N there.

    Raises ParameterError where alpha is not on the sweep's grid or no sample is done.
    """
    return of_model(models.of(sweep), float(sweep.alpha[_place(sweep, alpha)]), pool_of(sweep, alpha))


def _of_rows(model: Network, alpha: float, pool: Pool | None) -> Spectrum:
    """Eigenvalues of draws of seed 0, and where the verdict at alpha names a law of the rows the bulk of the first of them."""
    import sims  # late: it brings JAX
    from sims import given, instance
    from sims.hessian import hessian

    rows = model.inputs
    assert rows is not None
    n, size = rows.n, int(model.p) * rows.n
    if size > MOST:
        raise ParameterError(f"spectrum takes whole Hessians of order {MOST} at most, got p N = {size:g}")
    drawn = [sims.draw(model, n, alpha, sample=sample) for sample in range(DRAWN)]
    seen = np.stack([np.linalg.eigvalsh(hessian(each)) for each in drawn])
    law, whole = given.judged(model, alpha).kind, population(rows)
    low, high = float(seen.min()), float(np.quantile(seen, REACH))
    lam = low + (high - low) * np.linspace(-0.1, 1, ROWS_POINTS)
    rho = np.full(ROWS_POINTS, np.nan)
    if law != "neither":
        first = drawn[0]
        taken = rows.take(instance.chosen(first.words, rows.count, first.m))
        student, teacher = np.asarray(first.student, np.float64), np.asarray(first.teacher, np.float64)
        y, scaled = instance.outputs(first), law == "elliptical"
        rho = bulk_density(model, whole, taken, student, teacher, lam, y, scaled=scaled)
        good = np.isfinite(rho) & (np.arange(ROWS_POINTS) >= np.argmax(rho > TAIL * np.nanmax(rho)) - 1)
        lam, rho = lam[good], rho[good]
    if pool is None or pool.eigenvalues.shape[1] < pool.size:
        pool = Pool(seen, n, size)
    varied = min(round(alpha * n), len(whole.s))  # directions in which the rows vary
    return Spectrum(model, alpha, lam, rho, 1 - varied / n, Edge(np.nan, "sharp"), (), pool, law)


def quenched_sample(model: Network, n: int, alpha: float, seed: int, sample: int) -> Prediction:
    """Quenched theory of the labels of one sample, drawn again. Raises ParameterError, NotConverged."""
    from sims.instance import draw, preactivations  # late: it brings JAX

    found = draw(model, n, alpha, seed=seed, sample=sample)
    lam, u = preactivations(found)
    return quenched(model, lam, u, n)


def pool_of(sweep: xr.Dataset, alpha: float) -> Pool:
    """The eigenvalues of all samples that are done at alpha and the largest N; ParameterError if there are none."""
    nearest = _place(sweep, alpha)
    largest = int(np.argmax(sweep.n.values))
    good = sweep.status.values[largest, nearest] == DONE
    if not good.any():
        raise ParameterError(f"spectrum must be an alpha with finished samples, got {alpha!r}")
    n = int(sweep.n[largest])
    at = largest, nearest, good
    eps = float(np.finfo(str(sweep.attrs.get("dtype", "float64"))).eps)
    return Pool(sweep.eigenvalues.values[at], n, int(sweep.p) * n, sweep.residuals.values[at], eps)


def _place(sweep: xr.Dataset, alpha: float) -> int:
    """The index of alpha in the sweep's grid, told to the six digits that tables print; ParameterError if it is not there."""
    nearest = int(np.argmin(np.abs(sweep.alpha.values - alpha)))
    if not math.isclose(float(sweep.alpha[nearest]), alpha, rel_tol=1e-5):
        grid = ", ".join(f"{value:.6g}" for value in sweep.alpha.values)
        raise ParameterError(f"spectrum must be an alpha of the sweep ({grid}), got {alpha!r}")
    return nearest
