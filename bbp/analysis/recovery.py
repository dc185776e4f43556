"""What descents say about recovery: how many samples recover, where half of them do, where m2 leaves chance.

Success of a sample: its final `projection` (max_k sum_l m_kl^2, which is m2 for p_star = 1) exceeds a stated threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from bbp.analysis.bootstrap import NOTHING, Estimate, bootstrap, fraction, from_replicates
from bbp.analysis.finite_size import logit_fit
from bbp.experiments.descent_file import DescentData
from theory.checks import ParameterError, positive

Array = NDArray[np.float64]
THRESHOLD = 0.5
ONSET_SIGMAS = 3.0


@dataclass(frozen=True)
class Recovery:
    """Recovery against alpha (alpha,) for one n and start.

    success   fraction of samples whose final projection exceeds the threshold
    final     mean final m2; initial: mean m2 of the starts
    midpoint  alpha at which the fraction is 1/2, by a logistic fit, error by resampling
    onset     smallest alpha of the grid from which on the mean final m2 exceeds the mean m2 of RANDOM students
              of the same N by ONSET_SIGMAS standard errors, at this and every larger alpha; NaN if there is none
    """

    alpha: Array
    success: list[Estimate]
    final: list[Estimate]
    initial: list[Estimate]
    midpoint: Estimate
    onset: float


def recovery(found: DescentData, n: int, start: str, threshold: float = THRESHOLD, seed: int = 0) -> Recovery:
    """Recovery at input dimension n from `start`; samples without a result are left out. Raises ParameterError."""
    threshold = positive("threshold", threshold)
    if threshold >= 1:
        raise ParameterError(f"threshold must be below 1, got {threshold!r}")
    rng = np.random.default_rng(seed)
    where = _position(found, "n", n), _position(found, "start", start)
    m2, projection = found.m2[where], found.projection[where]
    hits = np.where(np.isfinite(projection[:, :, -1]), projection[:, :, -1] > threshold, np.nan)
    final = [bootstrap(row, rng) for row in m2[:, :, -1]]
    return Recovery(
        alpha=found.dims["alpha"],
        success=[fraction(row) for row in hits],
        final=final,
        initial=[bootstrap(row, rng) for row in m2[:, :, 0]],
        midpoint=midpoint(found.dims["alpha"], hits, rng),
        onset=onset(found.dims["alpha"], final, chance(found.model.p, found.model.p_star, n)),
    )


def midpoint(alpha: Array, hits: Array, rng: np.random.Generator, repeats: int = 200) -> Estimate:
    """alpha at which half of the samples (alpha, sample) are hits; NaN where the grid does not hold it.

    By the fit logit(fraction) = linear in alpha (binomial maximum likelihood): the first crossing of the line through measured
    fractions comes too early, since of several noisy points the first to exceed 1/2 is taken (by 0.04 at 12 samples a point).
    Errors by resampling the counts. A crossing so near an end of the grid that one resampling in ten misses it has no error.
    """
    trials = np.isfinite(hits).sum(axis=1).astype(np.float64)
    if np.any(trials < 2):
        return NOTHING
    successes = np.nansum(hits, axis=1)
    scale = float(np.ptp(alpha)) or 1.0
    x = (alpha - alpha.mean()) / scale

    def half(counts: Array) -> float:
        level, slope = logit_fit(x, counts, trials, degree=1)
        at = -level / slope if slope > 0 else np.nan
        return float(alpha.mean() + scale * at) if x.min() < at < x.max() else np.nan

    value = half(successes)
    jeffreys = (successes + 0.5) / (trials + 1)
    drawn = rng.binomial(trials.astype(np.int64), jeffreys, size=(repeats, len(trials)))
    replicates = np.array([half(counts) for counts in drawn.astype(np.float64)])
    if np.mean(np.isfinite(replicates)) < 0.9:
        return Estimate(value, np.nan, np.nan, np.nan)
    return from_replicates(value, replicates)


def onset(alpha: Array, final: list[Estimate], base: float) -> float:
    """The first alpha from which on every mean final m2 lies ONSET_SIGMAS of its standard errors above `base`."""
    clear = np.array([e.value - base > ONSET_SIGMAS * e.error for e in final])
    kept = np.logical_and.accumulate(clear[::-1])[::-1]
    return float(alpha[np.argmax(kept)]) if kept.any() else float("nan")


def chance(p: int | float, p_star: int, n: int) -> float:
    """Mean of m2 for random students: of the largest of p p_star squared N(0, 1/N) overlaps (as N grows).

    E[max] = integral of 1 - P(g^2 < x)^(p p_star), P(g^2 < x) = erf(sqrt(x/2)), by the trapezoid rule in sqrt(x).
    """
    root = np.linspace(0, 12, 20_001)
    return float(np.trapezoid((1 - erf(root / np.sqrt(2)) ** (int(p) * p_star)) * 2 * root, root)) / n


def _position(found: DescentData, name: str, value: int | str) -> int:
    held = found.dims[name].tolist()
    if value not in held:
        raise ParameterError(f"{name} must be one of {', '.join(map(str, held))}, got {value!r}")
    return held.index(value)
