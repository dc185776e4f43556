"""Averages over samples, and the table that closes a sweep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bbp.analysis.observables import observables
from bbp.experiments import models
from bbp.exports.digits import decimals
from bbp.store import DONE, FAILED, Sweep, describe


@dataclass(frozen=True)
class Summary:
    """Sampled averages of one model, each (n, alpha); NaN where fewer samples than the quantity needs.

    lowest, lowest_error    mean and standard error of the lowest eigenvalue
    overlap, overlap_error  the same of q2, the mean squared overlap of the p p_star lowest eigenvectors
    done, failed            numbers of samples
    """

    lowest: NDArray[np.float64]
    lowest_error: NDArray[np.float64]
    overlap: NDArray[np.float64]
    overlap_error: NDArray[np.float64]
    done: NDArray[np.int64]
    failed: NDArray[np.int64]


def summarise(sweep: Sweep) -> Summary:
    """Averages over the samples of a sweep that are done."""
    sampled = observables(sweep)
    done, failed = ((sweep.status == code).sum(axis=-1) for code in (DONE, FAILED))
    return Summary(*mean_and_error(sampled.lowest), *mean_and_error(sampled.overlap), done, failed)


def mean_and_error(values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard error along the last axis, leaving out NaN: (...,), (...,); NaN from none, or from one."""
    values = np.asarray(values, dtype=np.float64)
    found = np.isfinite(values)
    number = found.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(found, values, 0).sum(axis=-1) / number
        squares = np.where(found, (values - mean[..., None]) ** 2, 0).sum(axis=-1)
        return mean, np.sqrt(squares / (number - 1) / number)


def table(sweep: Sweep) -> str:
    """The closing table of one model: samples and theory side by side, a block of rows for each n."""
    averages = summarise(sweep)
    lines = [f"{describe(sweep.model)}: {models.threshold_words(sweep.alpha_bbp, sweep.kind)}"]
    levels, shares = _places(averages.lowest_error), _places(averages.overlap_error)
    head = _head(int(sweep.model.degeneracy))
    for i, n in enumerate(sweep.n):
        lines += ["", f"N = {n}", head]
        for j, alpha in enumerate(sweep.alpha):
            cells = [
                f"{alpha:9.6g}",
                f"{averages.done[i, j]:8d}",
                _measured(averages.lowest[i, j], averages.lowest_error[i, j], levels),
                _measured(averages.overlap[i, j], averages.overlap_error[i, j], shares),
                *(_number(column[j], levels) for column in (sweep.edge, sweep.outlier)),
                _number(sweep.overlap[j], shares),
            ]
            lines.append("  ".join(cells))
    return "\n".join(lines)


def _head(group: int) -> str:
    """Names of the columns; (inf) marks theory at N = infinity, q2 is a mean over the p p_star = group lowest vectors."""
    overlap = "q2" if group == 1 else f"q2, mean of {group}"
    names = [f"{name:>9}" for name in ("edge(inf)", "out(inf)", "q2(inf)")]
    return "  ".join(["    alpha", " samples", f"{'lowest eigenvalue':>18}", f"{overlap:>18}", *names])


def _places(errors: NDArray[np.float64]) -> int:
    """Decimals of a column: two digits of a middling error; 4 where no error is known."""
    known = errors[errors > 0]
    places = decimals(float(np.median(known))) if known.size else None
    return 4 if places is None else min(max(places, 0), 15)


def _measured(mean: float, error: float, places: int) -> str:
    alone = f"{mean:.{places}f}"
    text = "-" if np.isnan(mean) else alone if np.isnan(error) else f"{alone} ± {error:.{places}f}"
    return f"{text:>18}"


def _number(value: float, places: int) -> str:
    return f"{'-' if np.isnan(value) else f'{value:.{places}f}':>9}"
