"""When the Hessian loses, or gains, the informative direction along gradient flow, at N = infinity.

The flow starts from random students (or at the model's overlap with the teacher). It is run in law without a matrix
(`theory.path.deferred`): M samples in dimension N = M / alpha, whose (lambda, u) at the start are scrambled Sobol points turned
normal instead of independent draws. Both give the same law as M grows; the points leave much less scatter.

* From random students, with activations even in u and lambda, overlaps with the teacher stay 0 at N = infinity and the term of
  the forces vanishes for the teacher by u -> -u. The flow then needs no teacher but its outputs y, and the margin of the
  outlier at time t is that of the plain formula on the law of (lambda_t, u):

      margin(t) = edge(t) - alpha E[u^2 F / (1 - g F)] at the edge.

* Otherwise the margin is the largest of conditioned theory (`theory.path.conditioned`), teacher and forces among what is used.

The flow is integrated by Heun's method with steps of a stated part of the largest stable one, halved once: the difference, of
second order, is extrapolated, and so is that in 1/N from a run of a quarter of the samples. Errors are those of means over
independent scramblings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theory.answers import Printed
from theory.checks import NotConverged, ParameterError, count, one, positive, ratio
from theory.general.dyson import Dyson
from theory.general.extremes import bottom
from theory.general.quadrature import normals, sobol
from theory.general.spikes import SpikeBlock
from theory.model import Network, network
from theory.path.conditioned import closure, force, moments
from theory.path.deferred import Deferred
from theory.path.projected import ProjectedDyson, ProjectedSpikes

Array = NDArray[np.float64]

STEP = 1.5  # times 1 / (largest curvature): below 2, where Heun's method turns unstable
_AGREE = 0.9  # share of the scramblings that must cross for a time to be given


@dataclass(frozen=True, repr=False)
class TransitionTime(Printed):
    """When the largest margin of an outlier changes its sign along gradient flow: a time at one alpha, where a `Threshold` is
    an alpha, and with two senses, lost and born.

    time    of the flow of the loss as it is written, NaN where there is none
    kind    "lost": there at the start, gone at `time`; "born": the other way round; "none": no change until `until`; "no edge":
            the spectrum has no left edge; "unresolved"
    error   standard error of `time`, with what steps and dimension leave
    until   where the flow was ended
    margin  at the start: positive where there is an outlier
    reason  what is behind them
    """

    time: float
    kind: str
    error: float
    until: float
    margin: float
    reason: str = ""


def bbp_time(
    model: Network,
    alpha: float,
    *,
    until: float | None = None,
    samples: int = 2**14,
    scramblings: int = 8,
    seed: int = 0,
) -> TransitionTime:
    """The time at which the Hessian loses (or gains) its informative direction along gradient flow, N = infinity.

    Parameters
    ----------
    model : Network of finite p, inputs without covariance; its overlap is that of the start.
    alpha : M / N.
    until : time at which to give up; None: 3 (1 + a).
    samples : M of the largest run, rounded to a power of 2, at least 256.
    scramblings : independent runs, at least 4.
    seed : of the scramblings and of the data.

    Returns
    -------
    TransitionTime

    Raises
    ------
    ParameterError
        on anything unfit.

    >>> found = bbp_time(Network(a=0.5), 1.5, samples=2048, scramblings=4)
    >>> found.kind, 0.03 < found.time < 0.12
    ('lost', True)
    """
    model = network(model)
    if math.isinf(model.p) or model.covariance is not None or model.inputs is not None:
        raise ParameterError("p must be finite, covariance and inputs None for a flow, got another model")
    alpha = one("alpha", ratio("alpha", alpha))
    until = 3 * (1 + model.a) if until is None else one("until", positive("until", until))
    level = max(8, round(math.log2(count("samples", samples))))
    least = 4 * (int(model.p) + model.p_star + 1)  # dimensions of the smallest run
    if 2 ** (level - 2) < least * alpha:
        raise ParameterError(
            f"alpha must be at most {2 ** (level - 2) / least:g} with so many samples, got {alpha!r}"
        )
    runs = range(count("scramblings", scramblings, 4))
    seed = count("seed", seed, 0)
    if not math.isfinite(bottom(model).value):
        reason = "the weight is unbounded below"
        return TransitionTime(math.nan, "no edge", math.nan, until, math.nan, reason)

    def roots(part: float, size: int, many: range) -> tuple[Array, Array]:
        found = [_crossing(_margins(model, alpha, 2**size, [seed, run], part, until)) for run in many]
        return np.array([row[0] for row in found]), np.array([row[1] for row in found])

    try:
        whole, start = roots(1.0, level, runs)
        margin = float(start.mean())
        share = float(np.mean(np.isfinite(whole)))
        if share == 0 and np.all(start * margin > 0):
            return TransitionTime(math.nan, "none", math.nan, until, margin)
        if share < _AGREE or not np.all(start * margin > 0):
            reason = f"{share:.0%} of {len(runs)} runs cross, starts at margins {start.min():.3g} to {start.max():.3g}"
            return TransitionTime(math.nan, "unresolved", math.nan, until, margin, reason)
        fine, _ = roots(0.5, level, runs)
        small, _ = roots(1.0, level - 2, range(4 * len(runs)))
    except NotConverged as failure:
        return TransitionTime(math.nan, "unresolved", math.nan, until, math.nan, str(failure))
    time, error = _extrapolated(whole, fine, small)
    return TransitionTime(time, "lost" if margin > 0 else "born", error, until, margin)


def _extrapolated(whole: Array, fine: Array, small: Array) -> tuple[float, float]:
    """Time at step 0 and N = infinity, and its error, from roots at a step, at half of it (the same scramblings) and at a
    quarter of the samples. The correction of the step counts with half of its size as an error, for what is of higher order."""
    # Second order in the step: halved, a quarter of the error is left.
    paired = whole + 4 / 3 * (fine - whole)
    # First order in 1/N: at a quarter of the samples four times the error.
    size = float(np.nanmean(whole) - np.nanmean(small)) / 3
    error = np.hypot(_error(paired + whole / 3), _error(small / 3))
    return float(np.nanmean(paired)) + size, float(error + abs(np.nanmean(fine - whole)) * 2 / 3)


def _error(values: Array) -> float:
    """Standard error of the mean of those that are numbers."""
    return float(np.nanstd(values, ddof=1) / math.sqrt(np.sum(np.isfinite(values))))


def _crossing(curve: Iterator[tuple[float, float]]) -> tuple[float, float]:
    """First change of sign of a curve (time, margin), NaN if none, and its start; no more of it is made than that takes."""
    from scipy.interpolate import PchipInterpolator
    from scipy.optimize import brentq

    points = [next(curve)]
    for point in curve:
        points.append(point)
        if points[-2][1] * points[0][1] <= 0 and len(points) > 2:
            break  # one more beyond the change, for the interpolation
    times, margins = np.array(points).T
    changed = np.flatnonzero(margins * margins[0] <= 0)
    if not len(changed):
        return math.nan, float(margins[0])
    at = int(changed[0])
    # A few points about the change of sign, and no overshoot between them.
    near = PchipInterpolator(times[max(at - 3, 0) :], margins[max(at - 3, 0) :])
    return brentq(lambda t: float(near(t)), times[at - 1], times[at], xtol=1e-12), float(margins[0])


def _margins(
    model: Network, alpha: float, m: int, words: list[int], part: float, until: float
) -> Iterator[tuple[float, float]]:
    """Times and margins of one flow, step by step."""
    flow = _Flow(model, alpha, m, words)
    time = 0.0
    while True:
        weights = model.weights_at(flow.lam, flow.y)
        yield time, flow.margin(weights)
        if time >= until:
            return
        sizes = np.sqrt(np.sum(weights**2, axis=(1, 2)))
        # Estimate of the Hessian's largest eigenvalue, from the norms of its weights.
        stiffest = 1.2 * sizes.max() + 2 * alpha * sizes.mean()
        step = min(part * STEP / stiffest, until - time)
        flow.advance(step)
        time += step


class _Flow:
    """Students, and data known at first as points of a low-discrepancy sequence: lam (m, p), u (m, p_star), outputs y (m,)."""

    def __init__(self, model: Network, alpha: float, m: int, words: list[int]):
        p, p_star = int(model.p), model.p_star
        self.model, self.n = model, max(p + p_star + 1, round(m / alpha))
        rng = np.random.default_rng([*words, m])
        noisy = p_star if model.noise else 0
        dimensions = p + p_star + noisy + bool(model.output_noise)
        points = normals(sobol(dimensions, rng, round(math.log2(m))))
        own, self.u = points[:, :p], points[:, p : p + p_star]
        zeta, xi = points[:, p + p_star : p + p_star + noisy], points[:, -1]
        self.y = model.outputs(self.u, zeta if noisy else None, xi if model.output_noise else None)
        # u -> -u: overlaps stay 0, forces drop out of the teacher's margin, and u has no place among the known vectors.
        self.plain = model.even_students and model.teacher.parity == "even" and model.target is None
        # Sobol points in place of the first draws: the same law as M grows, with less scatter.
        known = own if self.plain else np.hstack([self.u, own])
        # Directions of teacher and students: any orthonormal ones, by rotation invariance.
        rows = np.linalg.qr(rng.standard_normal((self.n, known.shape[1])))[0].T
        dtype, tolerance = (np.float32, 1e-5) if self.plain else (np.float64, 1e-7)
        state = Deferred(m, self.n, rng, directions=2000, dtype=dtype, tolerance=tolerance).state()
        # X e = lam / sqrt(n) for a unit vector e along a row of norm sqrt(n)
        images = (known.T / math.sqrt(self.n)).astype(dtype)
        self.data = Deferred.resumed({**state, "right": rows.astype(dtype), "images": images})
        rows *= math.sqrt(self.n)
        self.teacher = rows[:0] if self.plain else rows[:p_star]
        self.start = self.w = rows if self.plain else model.mixing() @ rows
        self.lam = self._pushed(self.w)
        self.total = np.zeros_like(self.lam)
        self.forces: list[Array] = []

    def advance(self, step: float) -> None:
        """One step of Heun's method on the spheres. Forces are kept as they enter: both of a step, and their sum."""
        first, along, used = self._slope(self.w, self.lam)
        # Heun: an Euler step, and the mean of the slopes at both ends.
        middle = self._on_spheres(self.w + step * first)
        second, beyond, other = self._slope(middle, self._pushed(middle))
        moved = self.w + step / 2 * (first + second)
        if not self.plain:
            # w + step/2 [first + second] in w_0 and X' forces: the second slope adds `beyond` times the middle point
            scale = math.sqrt(self.n) / np.linalg.norm(self.w + step * first, axis=1)
            inner = (self.total * (1 + step * along) + step * used) * scale
            total = self.total * (1 + step / 2 * along) + step / 2 * (used + other + beyond * inner)
            self.total = total * (math.sqrt(self.n) / np.linalg.norm(moved, axis=1))
            self.forces.append(used)
        self.w = self._on_spheres(moved)
        self.lam = self._pushed(self.w)

    def margin(self, weights: Array) -> float:
        """Mean margin of the teacher's directions, or the largest of all, at the present students."""
        if self.plain:
            dyson = Dyson(weights, 1 / self.n)
            edge = dyson.edge()
            return (
                edge.value
                - float(np.trace(SpikeBlock(dyson, self.u).xi(edge.at))) / len(self.u[0]) / self.model.p
            )
        kept = [self.forces[i] for i in moments(len(self.forces))]
        used = closure(self.data, self.teacher, self.w, [*kept, self.total] if kept else (), self.start)
        inner = self.n - used.images.shape[1]
        projected = ProjectedDyson(weights, 1 / inner, used.forces)
        edge = projected.edge()
        block = ProjectedSpikes(projected, used.images)
        return (edge.value - float(np.linalg.eigvalsh(block.xi(edge.at))[0])) * inner / self.n

    def _slope(self, w: Array, lam: Array) -> tuple[Array, Array, Array]:
        """-(tangent part of the gradient) at w, the component (p,) of the gradient along w, and the force (m, p)."""
        used = force(self.model, lam, self.y)
        gradient = self.data.pull(used).astype(np.float64)
        # The sphere takes out the part of the gradient along w.
        along = np.sum(gradient * w, axis=1) / self.n
        return along[:, None] * w - gradient, along, used

    def _pushed(self, w: Array) -> Array:
        return self.data.push(w).astype(np.float64)

    def _on_spheres(self, w: Array) -> Array:
        return w * (math.sqrt(self.n) / np.linalg.norm(w, axis=1, keepdims=True))
