"""Whether float32 resolves the low end of a Hessian: refused, for all samples of a point alike, where it does not.

Derived here. Rounding moves eigenvalues by a few eps |H|, and the solver accepts residuals down to FLOOR eps |H|
(`sims.krylov.settings`), within which, by Weyl's inequality, every value it calls an eigenvalue has one. |H| is that of the
label of largest weight, |H| <= 2 max |F| (measured: 0.9 to 1.9 of it, rows having |x|^2 near 1), while the lowest
eigenvalues are of the size of the most negative weight f. So their relative error is at most

    2 FLOOR eps max |F| / f

which grows without bound where a is small: labels y near 0 weigh up to 1/a. It is to be at most ERROR; the errors themselves
are some hundred times smaller. The largest of the weights that a run of samples meets is that of DRAWS times its labels,
drawn here from their law in a stream of its own, so that no sample is judged by itself: leaving out those of large weights
would bias what remains.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sims.instance import finite_p, real_dtype, samples_of
from sims.krylov.settings import FLOOR
from theory.checks import ParameterError
from theory.model.network import Network, network

ERROR = 0.1  # of the lowest eigenvalues, by the bound
DRAWS = 64  # samples whose labels are looked at
MOST = 2**21  # labels' entries drawn at most


def weight_spread(model: Network, m: int) -> float:
    """Largest weight over the most negative one among DRAWS m labels, or MOST entries; infinite where none is negative.

    >>> from theory.model import Network
    >>> weight_spread(Network(1, 1, 1.0), 100) < 100 < weight_spread(Network(1, 1, 1e-3), 100)
    True
    """
    wide, p = network(model), finite_p(model)
    lam, _, y = wide.draw_labels(min(DRAWS * m, MOST // (p + model.p_star)), np.random.default_rng(0))
    d, c, g = wide.weight_parts(lam, y)
    along = c * np.sum(g**2, axis=-1)
    largest = np.max(np.max(np.abs(d), axis=-1) + np.abs(along))
    lowest = np.min(d) if p > 1 and np.all(along >= 0) else np.min(np.min(d, axis=-1) + along)
    return float(largest / -lowest) if lowest < 0 else math.inf


def require_resolved(model: Network, n: int, alpha: float, dtype: Any) -> None:
    """ParameterError if `dtype` is float32 and does not resolve the lowest eigenvalues at (N, alpha).

    Where no weight is negative there is nothing to compare with, and nothing is refused.
    """
    if real_dtype(dtype) != np.float32:
        return
    most = ERROR / (2 * FLOOR * float(np.finfo(np.float32).eps))
    spread = weight_spread(model, samples_of(alpha, n))
    if math.isfinite(spread) and spread > most:
        raise ParameterError(
            f"dtype must be float64 at a = {model.a:g}: weights span a factor of {spread:.2g},"
            f" and float32 resolves the lowest eigenvalues up to one of {most:.2g}"
        )
