"""Sums over the labels of a draw whose means are known: what they explain of a draw's result is no part of an average's error.

With t fixed a little below that of the edge at N = infinity, K = (1/M) sum phi and U = (t/M) sum (1 - y) phi make edge and
outlier of a draw (theory.finite.quenched), and their means over labels are one quadrature each
(theory.exact.averages). Regression
on what they exceed their means by takes away 60 to 80 % of the variance of the lowest eigenvalue over draws, and 10 to 50 %
of that of its overlap (N = 100 to 400, p = 1, 2, 4): the method of control variates, with errors of order 1/draws of their own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theory.exact.averages import average, kernel_k, kernel_u
from theory.exact.bulk import edge_resolvent, problems
from theory.finite.label_bulk import Labels
from theory.model.network import Network

Array = NDArray[np.float64]

_BELOW = 0.8  # of t at the edge: no label of a draw has its pole there
_FEWEST = 16  # draws for two coefficients


def label_excess(model: Network, labels: Labels, alpha: float) -> Array:
    """(q, 2): what K and U of the labels of q draws exceed their means by."""
    t = -_BELOW * edge_resolvent(model, alpha) * 2 / int(model.p)
    models, _, _ = problems(model, np.array([alpha]))
    means = average([kernel_k, kernel_u], models, np.array([t]), np.array([1 - t]))
    sums = np.zeros((len(labels.y), 2))
    for f, share in zip(labels.f, labels.shares, strict=True):
        phi = f / (1 + t * f)
        sums[:, 0] += share * phi.mean(axis=1)
        sums[:, 1] += share * t * ((1 - labels.y) * phi).mean(axis=1)
    return np.asarray(sums - np.concatenate(means))


def controlled_mean(values: Array, excess: Array) -> tuple[float, float]:
    """Mean of values (draws,) at zero excess (draws, 2), by regression, and its standard error; within the range of the draws.

    >>> x = np.linspace(-1, 3, 40)[:, None] * [1.0, 0.0]
    >>> tuple(round(number, 9) for number in controlled_mean(2.0 + 3 * x[:, 0], x))
    (2.0, 0.0)
    """
    draws = len(values)
    if draws < _FEWEST:
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(draws))
    centre = excess.mean(axis=0)
    inverse = np.linalg.pinv(excess - centre)
    slope = inverse @ (values - values.mean())
    rest = values - values.mean() - (excess - centre) @ slope
    variance = np.sum(rest**2) / (draws - 1 - len(slope)) * (1 / draws + np.sum((centre @ inverse) ** 2))
    return float(np.clip(values.mean() - centre @ slope, values.min(), values.max())), float(
        np.sqrt(variance)
    )
