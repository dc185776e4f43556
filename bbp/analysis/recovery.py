"""What descents say about recovery: how many samples recover, where half of them do, where m2 leaves chance.

Success of a sample: its final `projection` (max_k sum_l m_kl^2, which is m2 for p_star = 1) exceeds a stated threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from bbp.analysis.bootstrap import NOTHING, REPEATS, Estimate, bootstrap, bootstrap_fraction, from_replicates
from bbp.experiments.descent_file import Descended
from theory.checks import ParameterError, positive

Array = NDArray[np.float64]
THRESHOLD = 0.5
ONSET_SIGMAS = 3.0


@dataclass(frozen=True)
class Recovery:
    """Recovery against alpha (alpha,) for one n and start.

    success   fraction of samples whose final projection exceeds the threshold
    final     mean final m2; initial: mean m2 of the starts
    midpoint  alpha at which the fraction first crosses 1/2 upwards (linear between grid points), bootstrap error
    onset     smallest alpha of the grid from which on the mean final m2 exceeds the mean m2 of RANDOM students
              of the same N by ONSET_SIGMAS standard errors, at this and every larger alpha; NaN if there is
              none
    """

    alpha: Array
    success: list[Estimate]
    final: list[Estimate]
    initial: list[Estimate]
    midpoint: Estimate
    onset: float


def recovery(found: Descended, n: int, start: str, threshold: float = THRESHOLD, seed: int = 0) -> Recovery:
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
        success=[bootstrap_fraction(row, rng) for row in hits],
        final=final,
        initial=[bootstrap(row, rng) for row in m2[:, :, 0]],
        midpoint=midpoint(found.dims["alpha"], hits, rng),
        onset=onset(found.dims["alpha"], final, chance(found.model.p, found.model.p_star, n)),
    )


def midpoint(alpha: Array, hits: Array, rng: np.random.Generator, repeats: int = REPEATS) -> Estimate:
    """Where the fraction of hits (alpha, sample) first crosses 1/2; NaN where the grid does not hold the crossing."""
    present = [row[np.isfinite(row)] for row in hits]
    if any(row.size < 2 for row in present):
        return NOTHING
    fraction = np.array([row.mean() for row in present])
    drawn = np.stack(
        [row[rng.integers(row.size, size=(repeats, row.size))].mean(axis=1) for row in present], axis=1
    )
    replicates = np.array([crossing(alpha, one) for one in drawn])
    if np.mean(np.isfinite(replicates)) < 0.9:
        # the crossing lies so near an end of the grid that its error would be that of the lucky replicates only
        replicates = np.full(repeats, np.nan)
    return from_replicates(crossing(alpha, fraction), replicates)


def crossing(alpha: Array, fraction: Array, level: float = 0.5) -> float:
    """First upward crossing of `level` by the piecewise linear fraction (alpha,).

    NaN if it starts above or never gets there.
    """
    above = np.flatnonzero(fraction >= level)
    if not above.size or above[0] == 0:
        return float("nan")
    i = above[0]
    share = (level - fraction[i - 1]) / (fraction[i] - fraction[i - 1])
    return float(alpha[i - 1] + share * (alpha[i] - alpha[i - 1]))


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


def _position(found: Descended, name: str, value: int | str) -> int:
    held = found.dims[name].tolist()
    if value not in held:
        raise ParameterError(f"{name} must be one of {', '.join(map(str, held))}, got {value!r}")
    return held.index(value)
