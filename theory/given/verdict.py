"""Whether theory may speak of these rows: "Gaussian", "elliptical" or "neither", decided by Hessians of the data themselves.

For each of some draws of teacher, student and rows there is what the Hessian of these rows has, and what theory says of the
same draw from its preactivations (`theory.given.hessian`), once with tau = 1 and once with the tau of each row. What scatters
from draw to draw is in both, so that a few draws tell their difference with a small error. A theory holds at this model and
alpha if

* the mean difference of the lowest eigenvalue, with twice its standard error, is at most TOLERANCE of the mean found;
* so is the median, and the mean without the draw of the largest eigenvalue: one heavy draw decides nothing;
* the mean difference of q2, less twice its error, is at most TOLERANCE of the larger one, or both are below BELOW. Where that
  difference with twice its error is more than TOLERANCE of what is found, as where hardly any eigenvector carries the signal,
  q2 is not given;
* there were at least DRAWS draws.

What is stated is theory's mean over more draws, of which no Hessian is solved (`settled`): with skewed draws the mean of
sixteen is not the mean, and its standard error is too small. A law is named only if that mean is known: misfit and three
errors, of mean and misfit together, are at most TOLERANCE of it, no two draws make up most of the variance, and rows of large
norm that no draw may have met do not decide it (`Heavy`).

Gaussian: tau = 1 holds, and so do the marks of the rows; elliptical: tau holds. The marks say how far rows are from these
laws whatever is asked of them: the variance of tau, and the distance (Kolmogorov) of projections
of the rows on random directions from a normal law, before and after a row is divided by sqrt(tau).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from theory.checks import ParameterError
from theory.given.covariance import population
from theory.model.inputs import Inputs

Array = NDArray[np.float64]

TOLERANCE = 0.2  # of the answer
DRAWS = 8
BELOW = 0.2  # of q2: nearly nothing carries the signal
KNOWN, MORE = 0.1, 512  # three errors of theory's mean, of it, beyond which more draws are made; the most
EVEN = 0.1  # scatter of single draws, of their mean, below which those with Hessians are enough
RARE, MET = 0.07, 10  # of the mean: rows that change it by more must have been met by so many draws
BROAD = 0.1  # variance of tau beyond which rows are not called Gaussian
_PROJECTIONS, _ROWS = 64, 2048  # of the marks, at the most
GAUSSIAN, ELLIPTICAL, NEITHER = KINDS = "Gaussian", "elliptical", "neither"


@dataclass(frozen=True)
class Marks:
    """How far rows are from Gaussian and elliptical ones.

    spread      variance of tau; 0 of Gaussian rows
    raw, whitened   Kolmogorov distance of projections on random directions from the normal law, mean over directions: of the
                rows, and of whitened rows over sqrt(tau)
    apart       how many directions hold so much variance that they are taken as they are
    """

    spread: float
    raw: float
    whitened: float
    apart: int


@dataclass(frozen=True)
class Verdict:
    """What may be said of rows at one model and alpha.

    kind            "Gaussian", "elliptical" or "neither"
    lowest, lowest_error, overlap, overlap_error   theory's means over the draws; errors hold the scatter of the mean, the
                    misfit that was measured and what the covariance is uncertain by. NaN for "neither", and q2 also where the
                    draws do not show that it is right
    misfit, misfit_error, overlap_misfit           theory less found, mean over the draws, of the law named or the nearer one
    reason          why, in words
    open            whether more draws may still show that a law holds
    """

    kind: str
    lowest: float = math.nan
    lowest_error: float = math.nan
    overlap: float = math.nan
    overlap_error: float = math.nan
    misfit: float = math.nan
    misfit_error: float = math.nan
    overlap_misfit: float = math.nan
    reason: str = ""
    open: bool = False


@dataclass(frozen=True)
class Heavy:
    """The heaviest rows: how many, how often a draw meets one, and by how much theory's lowest eigenvalue changes where one is
    put into a draw, in the mean."""

    count: int
    met: float
    change: float

    def hidden(self, draws: int, mean: float) -> bool:
        """Whether so many draws may have missed what these rows do to the mean."""
        return self.met * draws < MET and not self.met * self.change <= RARE * abs(mean)


@lru_cache(maxsize=8)
def marks(rows: Inputs) -> Marks:
    """The marks of inputs, from up to 2048 of their rows and 64 projections of fixed seed."""
    found, kept = population(rows), min(len(rows.typical), _ROWS)
    own = rows.take(rows.typical[np.arange(kept) * len(rows.typical) // kept])
    points, k = found.coordinates(own), found.apart
    tau = found.scales(points, float(found.s[k:].mean()))
    rng = np.random.default_rng(0)
    # A random projection of Gaussian rows is normal; of elliptical ones it is once tau is divided out.
    raw = own @ rng.standard_normal((rows.n, _PROJECTIONS))
    white = points[:, k:] / np.sqrt(np.maximum(found.raw[k:], 1e-12 * found.raw[0]) * tau[:, None])
    white = white @ rng.standard_normal((white.shape[1], _PROJECTIONS))
    return Marks(float(np.var(tau)), _distance(raw), _distance(white), k)


def judge(
    found: ArrayLike, gaussian: ArrayLike, elliptical: ArrayLike, own: Marks, *, halves: ArrayLike = ()
) -> Verdict:
    """The verdict on some draws, each told by lowest eigenvalue and squared overlap q2.

    Parameters
    ----------
    found, gaussian, elliptical : arrays (S, 2)
        Of the Hessians of S draws, and what theory says of each with tau = 1 and with tau; NaN where there is none.
    own : Marks
        Of the rows.
    halves : array (S', 2)
        By theory from either half of the rows, second less first: what the covariance is uncertain by.

    Returns
    -------
    Verdict

    Raises
    ------
    ParameterError
        On arrays of different shapes.
    """
    draws = [np.asarray(each, float) for each in (found, gaussian, elliptical)]
    if len({each.shape for each in draws}) > 1 or draws[0].shape[1:] != (2,):
        raise ParameterError(
            f"draws must be arrays (S, 2) of one length, got {[each.shape for each in draws]}"
        )
    split = np.asarray(halves, float).reshape(-1, 2)
    # Half of the rows have twice the variance of all, the difference of two halves four times: half of it.
    by_rows = np.sqrt(np.mean(split**2, axis=0)) / 2 if len(split) else np.zeros(2)
    by_gauss, by_tau = (
        _fit(kind, draws[0], said, by_rows) for kind, said in zip(KINDS, draws[1:], strict=False)
    )
    if by_gauss.kind == GAUSSIAN and own.spread <= BROAD:
        return by_gauss
    if by_tau.kind == ELLIPTICAL:
        return by_tau
    if by_gauss.kind == GAUSSIAN:
        said = f"tau has the variance {own.spread:.2g}, and theory with tau is off: {by_tau.reason}"
        return _neither(by_gauss, said, by_tau.open)
    nearer = min(
        (by_gauss, by_tau), key=lambda fit: abs(fit.misfit) if math.isfinite(fit.misfit) else math.inf
    )
    # Where neither holds, the law that misses by less says why.
    return replace(nearer, open=by_gauss.open or by_tau.open)


def enough(lowest: Array, heavy: tuple[Heavy, ...] = ()) -> bool:
    """Whether the mean of theory's lowest eigenvalue is known well, or no draw more will make it so.

    Parameters
    ----------
    lowest : array (K,)
        Lowest eigenvalues by theory.
    heavy : tuple of Heavy
        What the heaviest rows do.

    Returns
    -------
    bool
    """
    (mean, error), draws = _mean(lowest), len(lowest)
    if draws >= MORE:
        return True
    if draws < 8 * DRAWS:
        even = draws >= 2 * DRAWS and error * math.sqrt(draws) <= EVEN * abs(mean)
        return even and not any(each.hidden(draws, mean) for each in heavy)
    unseen = any(each.hidden(MORE, mean) for each in heavy)
    # The error falls like 1/sqrt(draws): what it would be at the most draws.
    hopeless = unseen or 3 * error * math.sqrt(draws / MORE) > 2 * TOLERANCE * abs(mean)
    known = 3 * error <= KNOWN * abs(mean) and not any(each.hidden(draws, mean) for each in heavy)
    return hopeless or known


def settled(verdict: Verdict, said: Array, pairs: int, heavy: tuple[Heavy, ...] = ()) -> Verdict:
    """The verdict with theory's means over more draws, or "neither" where these are not known.

    Parameters
    ----------
    verdict : Verdict
        That names a law, by draws with Hessians.
    said : array (K, 2)
        Lowest eigenvalue and q2 by that law; the first `pairs` are those of the verdict's own draws.
    pairs : int
        How many those are.
    heavy : tuple of Heavy
        What the heaviest rows do.

    Returns
    -------
    Verdict
    """
    lowest, q2 = said.T
    (mean, spread), draws = _mean(lowest), len(lowest)
    parts = np.sort((lowest - mean) ** 2)
    error = math.hypot(spread, verdict.misfit_error)
    rest = [
        math.sqrt(max(0.0, whole**2 - _mean(column[:pairs])[1] ** 2))  # misfit and covariance
        for whole, column in ((verdict.lowest_error, lowest), (verdict.overlap_error, q2))
    ]
    hidden = next((each for each in heavy if each.hidden(draws, mean)), None)
    why, may_hold = "", False
    if not np.isfinite(lowest).all():
        why = f"theory has no answer for {np.sum(~np.isfinite(lowest))} of {draws} draws"
    # Two draws that make the variance: its estimate, and the error with it, is not to be trusted.
    elif parts[-2:].sum() > parts.sum() / 2:
        why = f"two of {draws} draws make most of the scatter: the mean lambda_1, {mean:.3g}, is not known"
    elif hidden is not None:
        why = f"rows of large norm decide the mean: the heaviest {hidden.count} are in {hidden.met:.2g} of all draws, "
        why += f"and change lambda_1 by {hidden.change:.3g}, {mean:.3g} without them"
    elif not abs(verdict.misfit) + 3 * error <= TOLERANCE * abs(mean):
        why = f"the mean lambda_1, {mean:.3g} +- {spread:.2g} over {draws} draws with a misfit of "
        why += f"{verdict.misfit:+.2g} +- {verdict.misfit_error:.2g}, is not known to {TOLERANCE:.0%}"
        may_hold = 3 * spread <= TOLERANCE * abs(mean)
    if why:
        return _neither(verdict, why, may_hold)
    q2_mean, q2_spread = _mean(q2)
    known = math.isfinite(verdict.overlap) and rest[1] + 3 * q2_spread <= TOLERANCE * q2_mean
    return replace(
        verdict,
        lowest=mean,
        lowest_error=math.hypot(rest[0], spread),
        overlap=q2_mean if known else math.nan,
        overlap_error=math.hypot(rest[1], q2_spread) if known else math.nan,
        reason=f"{verdict.reason}; theory's mean over {draws} draws",
    )


def _neither(verdict: Verdict, why: str, may_hold: bool) -> Verdict:
    misfits = verdict.misfit, verdict.misfit_error, verdict.overlap_misfit
    return Verdict(NEITHER, math.nan, math.nan, math.nan, math.nan, *misfits, reason=why, open=may_hold)


def _fit(kind: str, found: Array, theory: Array, by_rows: Array) -> Verdict:
    """The verdict by one law alone: its kind, or "neither" and why. by_rows: what the covariance is uncertain by."""
    known = np.isfinite(found[:, 0]) & np.isfinite(theory[:, 0])
    some, wanted = int(known.sum()), int(np.isfinite(found[:, 0]).sum())
    if some < DRAWS or some < wanted:
        why = f"{some} draws of {len(found)} have both Hessian and theory, {DRAWS} and all of them are needed"
        return Verdict(NEITHER, reason=why, open=some == wanted)
    (value, q2), (said, said_q2) = found[known].T, theory[known].T
    (off, off_error), (mean, spread) = _mean(said - value), _mean(said)
    (q2_off, q2_off_error), (q2_mean, q2_spread) = _mean(said_q2 - q2), _mean(said_q2)
    # One heavy draw decides nothing.
    rest = np.arange(len(value)) != np.argmax(np.abs(value))
    trimmed, trimmed_error = _mean((said - value)[rest])
    middle = float(np.median(said) - np.median(value))
    why, refuted = "", False
    for words, difference, error, size in (
        ("the mean lambda_1", off, off_error, float(value.mean())),
        ("lambda_1 without the largest draw", trimmed, trimmed_error, float(value[rest].mean())),
        ("the median lambda_1", middle, off_error, float(np.median(value))),
    ):
        if not abs(difference) + 2 * error <= TOLERANCE * abs(size):
            why = why or f"theory is off by {difference:+.3g} +- {error:.2g} in {words}, {size:.3g}"
        refuted = refuted or abs(difference) - 2 * error > TOLERANCE * abs(size)
    size = max(float(q2.mean()), q2_mean)
    if not why and size > BELOW and abs(q2_off) - 2 * q2_off_error > TOLERANCE * size:
        why, refuted = f"theory is off by {q2_off:+.2g} +- {q2_off_error:.1g} in q2, {q2.mean():.3g}", True
    error, q2_error = (
        math.sqrt(scatter**2 + misfit**2 + its_error**2 + float(rows) ** 2)
        for scatter, misfit, its_error, rows in (
            (spread, off, off_error, by_rows[0]),
            (q2_spread, q2_off, q2_off_error, by_rows[1]),
        )
    )
    if not abs(q2_off) + 2 * q2_off_error <= TOLERANCE * q2.mean():
        q2_mean = q2_error = math.nan  # not shown to be right
    reason = f"theory less found: {off:+.3g} +- {off_error:.2g} in lambda_1, {q2_off:+.2g} in q2"
    verdict = Verdict(kind, mean, error, q2_mean, q2_error, off, off_error, q2_off, reason)
    return _neither(verdict, why, not refuted) if why else verdict


def _mean(values: Array) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def _distance(values: Array) -> float:
    """Largest distance of each column's distribution (m, k), made of variance 1, from a normal one; mean over columns."""
    ordered = np.sort((values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-300), axis=0)
    normal = ndtr(ordered)
    m = len(values)
    # The empirical distribution jumps by 1/m at each point: both ends of the jump count.
    above = np.arange(1, m + 1)[:, None] / m - normal
    return float(np.mean(np.maximum(above, 1 / m - above).max(axis=0)))
