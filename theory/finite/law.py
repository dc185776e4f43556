"""The law of the lowest eigenvalue and of its overlap at finite N: one small random matrix for each draw of preactivations.

theory.finite.small_matrix says what the matrix is and derives it. One law serves all alpha: below the threshold the
lowest eigenvectors share what the signal leaves in the bulk, above it an outlier leaves. How well it meets samples:
docs/appendix_finite_n.md and benchmarks/finite_law.py.

An eigenvector that the small matrix leaves out may have a larger overlap with the signal than those in it. There are many: at
p = 1, a = 2, alpha = 0.85, N = 100 some 70, each with a mean of 0.01 or less, and one in 25 samples has one above 0.1 among
them; below alpha = 1 the vectors of eigenvalue 0, of which any basis is as good as another, are most. Their means at N =
infinity are known, (p_star / N) rho_s / rho at an energy (theory.exact.density) and what is left of the signal's mass
for those at 0. About its mean the overlap of one vector follows Porter and Thomas: a chi-square law of p p_star squares,
independent of the others'. So the number of them above x is Poisson, of mean

    n(x) = sum over the eigenvectors left out of P(chi^2_d > d x / mean),      d = p p_star.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincc

from theory.answers import Printed
from theory.checks import NotConverged, ParameterError, count, numpy_defaults, one, ratio, shown
from theory.exact import finite_committee
from theory.exact.density import bulk_resolvent
from theory.exact.weight_law import signal_law
from theory.finite.bulk import controlled_mean
from theory.finite.draw import EXTREMES, Draw, draw, stored
from theory.finite.quenched import checked_preactivations, orthonormal
from theory.finite.small_matrix import SmallPairs, small_pairs
from theory.general.spectrum import solve
from theory.model.network import Network

Array = NDArray[np.float64]
_FIXED = 24 * 10**6  # bytes of a draw beside its preactivations
_SAMPLES = 2**63  # below which M = alpha N has to lie
FIELDS = "lowest", "overlap", "overlap_lowest", "overlap_next", "informative", "among", "first"
COLUMNS = (*FIELDS, "excess")
_AT_ONCE = 2**20  # preactivations in memory at a time
# of the models compared with dense samples (docs/appendix_finite_n.md): the widest p, p_star, p p_star
WIDEST = 4, 8, 12
LEAST_ORDER = 100  # p N: below it shares of informative samples can be 0.3 off
LEAST_A, LEAST_ALPHA = 0.08, 0.3  # for p > 1, of the models compared; below the second q2 is 12 % low
UNKNOWN = "finite-N theory is not known to hold"


@dataclass(frozen=True, repr=False)
class Law(Printed):
    """Draws of what one sample shows at (model, alpha, N), in units of the Hessian: arrays (draws,), or (alpha, draws) for
    several alpha. NaN where a draw has no edge. Neither a `Spectrum` nor a `Prediction`, but the distribution of which `mean`,
    `std`, `quantile` and `share_above` give such numbers.

    lowest         lowest eigenvalue
    overlap        squared overlap q2 with the signal space, mean over the p p_star lowest eigenvectors
    overlap_lowest that of the lowest eigenvector alone; overlap_next: of the first above the p p_star lowest
    informative    whether the lowest eigenvectors are: the mean overlap of the p p_star lowest exceeds the overlap
                   of every other eigenvector (for p p_star = 1 the order parameter phi of the paper)
    among          whether the eigenvector of largest overlap is among the p p_star lowest
    first          whether it is the lowest one (phi of the paper)
    excess         (..., 2) of sums over a draw's data points, for means (theory.finite.bulk)
    doubt          why the law is not known to hold there, or None (`doubt`); of several alpha an array of texts, "" for None
    """

    lowest: Array
    overlap: Array
    overlap_lowest: Array
    overlap_next: Array
    informative: Array
    among: Array
    first: Array
    excess: Array
    doubt: Any = None

    def mean(self, name: str) -> tuple[Any, Any]:
        """Mean of a field over draws and its standard error, of the shape of alpha; NaN where too few have an edge.

        Preactivations are control variates (theory.finite.bulk), which make the error less than that of the plain mean; not
        where all draws share theirs or some have no edge.
        """

        def corrected(kept: Array, excess: Array) -> tuple[float, float]:
            if kept.size == len(excess) and np.all(np.isfinite(excess)):
                return controlled_mean(kept, excess)
            return (float(kept.mean()) if kept.size else math.nan), _std(kept) / math.sqrt(max(kept.size, 1))

        return self._each(name, corrected)

    def std(self, name: str) -> Any:
        """Standard deviation of a field over draws, that of one sample."""
        return self._each(name, lambda kept, _: _std(kept))

    def quantile(self, name: str, share: Any) -> Any:
        """Quantiles of a field over draws; NaN where none has an edge."""
        none = np.full(np.shape(share), np.nan)[()]
        return self._each(name, lambda kept, _: np.quantile(kept, share) if kept.size else none)

    def share_above(self, q2: float, name: str = "overlap") -> tuple[Any, Any]:
        """P(field > q2) and its standard error over draws; NaN where none has an edge."""

        def above(kept: Array, _: Array) -> tuple[float, float]:
            if not kept.size:
                return math.nan, math.nan
            share = float(np.mean(kept > q2))
            # Of a share of 0 or 1 the binomial error would be 0: half a draw at the least.
            return share, math.sqrt(max(share * (1 - share), 0.25 / kept.size) / kept.size)

        return self._each(name, above)

    def _each(self, name: str, of: Any) -> Any:
        """of(values of the draws with an edge, excess of all), at each alpha; pairs of numbers become a pair of arrays."""
        if name not in FIELDS:
            raise ParameterError(f"name must be one of {', '.join(FIELDS)}, got {name!r}")
        values = np.asarray(getattr(self, name), dtype=np.float64)
        if values.ndim == 1:
            return of(values[np.isfinite(values)], self.excess)
        found = [of(row[np.isfinite(row)], own) for row, own in zip(values, self.excess, strict=True)]
        return tuple(np.array(found).T) if isinstance(found[0], tuple) else np.array(found)


def _std(kept: Array) -> float:
    return float(kept.std(ddof=1)) if kept.size > 1 else math.nan


def has_bulk(model: Network, n: int) -> bool:
    """Whether dimension n leaves a bulk beside students and teacher, of more eigenvalues than the p p_star of the signal.

    >>> has_bulk(Network(2, 1, 1.0), 3), has_bulk(Network(2, 1, 1.0), 6)
    (False, True)
    """
    return int(model.p) * (n - int(model.p) - model.p_star) > int(model.degeneracy) + 1


@numpy_defaults
def law(
    model: Network, alpha: ArrayLike, n: int, *, draws: int = 200, seed: int = 0, threads: int = 1
) -> Law:
    """Draws of the lowest eigenvalue and of overlaps at (alpha, N): see `Law` and the top of the module.

    Draws are the same random numbers at every alpha, their preactivations coupled (theory.finite.draw), so that means are
    smooth along alpha. Cost: draws times round(alpha N) p preactivations, 1 to 4 ms a draw up to 3,000 of them at p = 1.

    Parameters
    ----------
    model : Network
        A quadratic committee without options, of finite p.
    alpha : float or array (k,)
        M/N.
    n : int
        The input dimension N.
    draws, seed : int
        At least 2 draws; the seed of their random numbers.
    threads : int
        Values of alpha computed at once (most of the time goes into LAPACK, which lets others run); changes no number.

    Returns
    -------
    Law

    Raises
    ------
    ParameterError
        On unfit arguments.
    NotConverged
        Where the bulk has too few eigenvalues left of 0; of several alpha the draws are NaN there.

    >>> drawn = law(Network(1, 1, 0.5), [1.0, 3.0], 100, draws=20)
    >>> value, error = drawn.mean("overlap")
    >>> bool(value[0] < value[1]), drawn.lowest.shape
    (True, (2, 20))
    """
    values, threads = ratio("alpha", alpha), count("threads", threads)
    if np.ndim(values) == 0:
        return _law(model, *_sizes(model, values, n), draws, seed)
    if np.ndim(values) != 1 or not np.size(values):
        raise ParameterError(
            f"alpha must be one number or a list of at least one, got shape {np.shape(values)}"
        )

    def at(one: float) -> Law:
        try:
            return _law(model, *_sizes(model, one, n), draws, seed)
        except NotConverged:
            nan = np.full(draws, np.nan)
            return Law(
                **dict.fromkeys(FIELDS, nan), excess=np.full((draws, 2), np.nan), doubt=doubt(model, one, n)
            )

    with ThreadPoolExecutor(threads) as pool:
        each = list(pool.map(at, values.tolist()))
    columns = {name: np.stack([getattr(one, name) for one in each]) for name in COLUMNS}
    return Law(**columns, doubt=np.array([one.doubt or "" for one in each]))


def law_bytes(model: Network, alpha: float, n: int) -> int:
    """Bytes that one draw of `law` takes, somewhat more than were measured (of a sample 174 to 440 at p = p* = 1, 300 to
    720 at p = 4, with 20,000 samples and more). Raises ParameterError as `law`.

    >>> law_bytes(Network(4, 1, 1.0), 200.0, 3000) // 10**6
    264
    """
    m, n = _sizes(model, one("alpha", ratio("alpha", alpha)), n)
    return _FIXED + stored(model, m, n) * (100 + 60 * (int(model.p) + model.p_star))


def _sizes(model: Network, alpha: float, n: int) -> tuple[int, int]:
    """M = round(alpha N) and N; ParameterError on unfit ones."""
    finite_committee(model)
    if alpha * (n := count("n", n)) >= _SAMPLES:
        raise ParameterError(f"alpha N must be below 2^63 samples, got alpha = {alpha!r}, N = {shown(n)}")
    return count("samples", round(alpha * n)), n


def _law(model: Network, m: int, n: int, draws: int, seed: int, shared: Array | None = None) -> Law:
    draws, seed = count("draws", draws, minimum=2), count("seed", seed, minimum=0)
    p, d = int(model.p), int(model.degeneracy)
    if not has_bulk(model, n):
        raise ParameterError(
            f"n must be larger: the bulk's p (n - p - p_star) = {p * (n - p - model.p_star)} levels hardly hold"
            f" the p p_star = {d} of the signal"
        )
    at_once = max(1, _AT_ONCE // (stored(model, m, n) * (p + model.p_star + EXTREMES)))
    parts = []
    for first in range(0, draws, at_once):
        chosen = range(first, min(first + at_once, draws))
        # A stream of its own, the same at every alpha.
        chance = np.array([np.random.default_rng([seed, i, 6]).random() for i in chosen])
        drawn = draw(model, m, n, chosen, seed, shared)
        parts.append((*_draws(model, drawn, small_pairs(drawn, chosen), m / n, chance), drawn.excess))
    columns = map(np.concatenate, zip(*parts, strict=True))
    return Law(**dict(zip(COLUMNS, columns, strict=True)), doubt=doubt(model, m / n, n))


def quenched_law(
    model: Network,
    lam: ArrayLike,
    u: ArrayLike,
    n: int,
    *,
    gram: ArrayLike | None = None,
    draws: int = 200,
    seed: int = 0,
) -> Law:
    """`law` of samples that share their preactivations: the quenched disorder is given.

    What is left random is what preactivations do not fix: eigenvalues of the bulk, couplings, block noise. For p p_star > 1
    its mean differs from `quenched`, as that noise splits outliers.

    Parameters
    ----------
    model : Network
        A quadratic committee of finite p.
    lam, u : arrays (M, p) and (M, p_star)
        Preactivations of student and teacher.
    n : int
        Input dimension N.
    gram : array (r, r)
        Overlaps of teacher and students as in `quenched`; without it they count as orthogonal.
    draws, seed : int
        As in `law`.

    Returns
    -------
    Law

    Raises
    ------
    ParameterError
        On bad shapes and other unfit arguments.
    NotConverged
        As `law`.

    >>> lam, u, _ = Network(1, 1, 0.5).draw_labels(600, np.random.default_rng(0))
    >>> quenched_law(Network(1, 1, 0.5), lam, u, 200, draws=20).lowest.shape
    (20,)
    """
    model, lam, u = checked_preactivations(model, lam, u)
    basis = np.roll(orthonormal(np.hstack([u, lam]), gram), -model.p_star, axis=1)
    return _law(model, len(lam), count("n", n), draws, seed, np.stack([np.hstack([lam, u]), basis]))


def _draws(model: Network, drawn: Draw, pairs: SmallPairs, alpha: float, chance: Array) -> list[Array]:
    """The fields of a Law of these draws and their pairs. chance (q,), uniform: whether a vector left out is above all."""
    d, n = int(model.degeneracy), drawn.n
    lowest, q2 = pairs.values[:, 0], pairs.overlaps
    rest, told = np.where(pairs.known, q2, 0)[:, d:].max(axis=1, initial=0.0), pairs.known.sum(axis=1)

    def largest(x: Array, others: Array) -> Array:
        return ((x > others) & (chance < none_above(model, alpha, n, told, x))).astype(float)

    group = q2[:, :d]
    informative = largest(group.mean(axis=1), rest)
    columns = (
        # From (p/2) H in the dimension of the bulk to H in dimension N: 1/N stands in front of every sum.
        lowest * (2 / int(model.p) * drawn.data.n / n),
        group.mean(axis=1),
        q2[:, 0],
        q2[:, d],
        informative,
        largest(group.max(axis=1), rest) if d > 1 else informative,
        largest(q2[:, 0], np.maximum(rest, q2[:, 1:d].max(axis=1))) if d > 1 else informative,
    )
    return [np.where(pairs.sound, column, np.nan) for column in columns]


_NEAR, _FAR = 48, 24  # nodes in energy next to the left edge, and from there on
_REACH = 1e3  # of |edge|: the farthest node, as the bulk has no right edge


def none_above(model: Network, alpha: float, n: int, told: Array, x: Array) -> Array:
    """Probability (q,) that no vector but the `told` (q,) lowest has an overlap above x (q,) with the signal.

    >>> model = Network(1, 1, 2.0)
    >>> none_above(model, 0.85, 100, np.array([24.0, 24.0]), np.array([0.05, 0.2])).round(2)
    array([0.43, 1.  ])
    """
    d, order = int(model.degeneracy), int(model.p) * n
    eigenvalues, shares = signal_measure(model, alpha)
    # How many of each step's eigenvalues are left out, and their mean q2: rho_s d / (pN rho).
    below = np.maximum(eigenvalues[1:] * order - np.maximum(eigenvalues[:-1] * order, told[:, None]), 0)
    mean = np.diff(shares) / np.maximum(np.diff(eigenvalues), 1e-300) * d / order
    # P(chi^2_d > d x / mean); independent vectors make the number above x Poisson.
    over = gammaincc(d / 2, d / 2 * np.maximum(x, 0)[:, None] / np.maximum(mean, 1e-300))
    return np.asarray(np.exp(-np.sum(below * over, axis=1)))


@lru_cache(maxsize=256)
def signal_measure(model: Network, alpha: float) -> tuple[Array, Array]:
    """Shares (k,) of all eigenvalues, and of the signal's mass in the bulk, below nodes of energy: both end at what there is.

    Those at 0, below alpha = 1, come last: whatever their place, it is not asked for.
    """
    edge, zeros = solve(model, alpha).edge, max(0.0, 1 - alpha)
    reach = abs(edge) + 1e-3
    if zeros > 0 and edge < 0:  # the eigenvalues on either side of 0
        # Nodes crowd towards the atom at 0 ...
        low = edge * np.linspace(1, 0, _NEAR + 1)[1:-1] ** 2
        # ... and towards the edge, where the density vanishes like a square root.
        x = np.concatenate([edge + reach * np.linspace(0, 0.3, 12)[1:] ** 2, low])
        x = np.concatenate([np.unique(x), reach * np.geomspace(1e-3, _REACH, _FAR)])
    else:
        near = edge + reach * np.linspace(0, 1, _NEAR)[1:] ** 2
        x = np.concatenate([near, edge + reach * np.geomspace(1.1, _REACH, _FAR)])
    t, scale = bulk_resolvent(model, alpha, x)
    inside = t.imag > 0
    signal = np.zeros(len(x))
    # rho_s = -Im s / pi, s = 1 / (z - alpha S)
    signal[inside] = -(1 / (scale * x[inside] - alpha * signal_law(model).transform(t[inside])[0])).imag
    steps = np.diff(x, prepend=edge) * scale / math.pi

    def running(density: Array) -> Array:
        return np.concatenate(
            [[0.0], np.cumsum(steps * (density + np.concatenate([[0.0], density[:-1]])) / 2)]
        )

    eigenvalues, shares, found = (
        running(np.where(inside, t.imag, 0)),
        running(signal),
        solve(model, alpha).pulled,
    )
    # An outlier takes q2 of each signal direction out of the bulk.
    mass = 1 - (found[0].overlap if found else 0.0)
    eigenvalues *= min(1.0, (1 - zeros) / eigenvalues[-1])  # what trapezoids have too much
    shares *= min(1.0, mass / shares[-1])
    if zeros:
        return np.append(eigenvalues, eigenvalues[-1] + zeros), np.append(shares, mass)
    return eigenvalues, shares


def doubt(model: Network, alpha: float, n: float, of: str = "overlap") -> str | None:
    """Why the finite-N law is not known to hold at (alpha, N), in a few words; None where it lies in the range of comparisons.


    In that range means of the overlap of the p p_star lowest vectors met those of dense samples within 10 %, those of the
    lowest eigenvalue within 0.35 of its standard deviation (docs/appendix_finite_n.md, benchmarks/finite_law.py).

    Parameters
    ----------
    model, alpha, n
        As in `law`.
    of : str
        What is asked. Shares of "overlap_lowest" (the lowest vector alone), "informative", "among" and "first" are known less
        well than "overlap", the mean over the group.

    Returns
    -------
    str or None
        The reason, in a few words.

    >>> doubt(Network(2, 1, 0.5), 2.0, 200) is None
    True
    >>> doubt(Network(6, 1, 0.5), 2.0, 200)
    'not compared with samples for p = 6, p* = 1'
    """
    p, p_star = model.p, model.p_star
    if p > WIDEST[0] or p_star > WIDEST[1] or p * p_star > WIDEST[2]:
        return f"not compared with samples for p = {p:g}, p* = {p_star}"
    if p * n < LEAST_ORDER:
        return f"p N = {p * n:g} is below {LEAST_ORDER}: shares can be 0.3 off"
    if p > 1 and model.a < LEAST_A:
        return f"not compared with samples for p > 1 at a = {model.a:g}, below {LEAST_A:g}"
    if p > 1 and alpha < LEAST_ALPHA:
        return f"p > 1 at alpha = {alpha:.3g}, below {LEAST_ALPHA:g}: q2 12 % lower than in samples"
    if p == WIDEST[0]:
        return f"p = {p:g}: q2 scatters 15 to 30 % more in samples, shares can be 0.1 off"
    if of == "overlap_lowest" and p > 1 and p_star > 1:
        return "shares of the lowest vector alone can be 0.1 off for p, p* > 1"
    if of in ("informative", "among", "first") and p > 1 and p_star > 1:
        return "the law calls 0.05 too many samples informative for p, p* > 1"
    return None


def doubts(model: Network, alphas: Iterable[float], sizes: Iterable[float]) -> str:
    """What `doubt` says of values of alpha and of N, in one line with the sizes it is said of; empty where it says nothing.

    >>> doubts(Network(2, 1, 0.5), [1.0, 2.0], [20, 100])
    'N = 20: p N = 40 is below 100: shares can be 0.3 off'
    """
    found: dict[str, list[str]] = {}
    alphas = list(alphas)
    for n in sizes:
        for reason in dict.fromkeys(reason for alpha in alphas if (reason := doubt(model, alpha, n))):
            found.setdefault(reason, []).append(f"{n:g}")
    return "; ".join(f"N = {', '.join(of)}: {reason}" for reason, of in found.items())
