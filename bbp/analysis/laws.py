"""Which law a number follows with N: least squares of every law, how well it fits, intervals, and whether one alone is left.

A law is y(N) = b + c f(N), with b the limit, known from theory or fitted, and f one of `SHAPES`:

    N^-1/2    sums over labels; what splits the outliers of p > 1
    N^-2/3    a sharp edge (Tracy-Widom)
    1/N       means about an outlier that is clear of the edge
    1/log N   a smooth edge, and a threshold held up by it (docs/finite_n.md)
    N^-x      any power, x fitted

Errors that are themselves estimated, from `freedom` + 1 samples, make chi-square too large and intervals too short. The
probability of a chi-square is then that of Johansen (Biometrika 67 (1980) 85), after Welch; variances of coefficients have the
second order of Kenward and Roger (Biometrics 53 (1997) 983), and Student's law at Satterthwaite's degrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, fdtrc, stdtrit

from bbp.analysis.estimates import LEVEL, NOTHING, Estimate
from theory.checks import ParameterError, choice

Array = NDArray[np.float64]

FREE = "N^-x"
POWER = {"N^-1/2": 0.5, "N^-2/3": 2 / 3, "1/N": 1.0}  # that N^-x contains


def _power(power: float) -> Callable[[Any, Any], Array]:
    return lambda n, x: n ** -(power + np.zeros_like(x))


SHAPES: Mapping[str, Callable[[Any, Any], Array]] = {  # of N and x, which all but N^-x leave aside
    **{name: _power(power) for name, power in POWER.items()},
    "1/log N": lambda n, x: 1 / np.log(n) + np.zeros_like(x),
    FREE: lambda n, x: n**-x,
}
REJECTED = 0.01  # probability of a chi-square as large, below which a law is rejected
SPARE = 2  # degrees of freedom that every law must leave for a verdict
STEEPEST, FLATTEST = 4.0, 0.02  # exponents looked at
GRID = 60  # of exponents at a time


@dataclass(frozen=True)
class Fit:
    """One law through values at several N.

    law            its name in `SHAPES`
    limit          b: fitted, or as given, with error 0
    coefficient    c
    exponent       x, fitted or of the law; NaN for 1/log N
    chi2, degrees  chi-square, and sizes less what was fitted
    probability    of one as large or larger, were the law true; NaN without a degree of freedom
    """

    law: str
    limit: Estimate
    coefficient: Estimate
    exponent: Estimate
    chi2: float
    degrees: int
    probability: float

    @property
    def rejected(self) -> bool:
        """Whether a chi-square like this is too large to be chance."""
        return self.probability < REJECTED

    def at(self, n: ArrayLike) -> Array:
        """The law at these N."""
        shape = SHAPES[self.law](np.asarray(n, dtype=np.float64), self.exponent.value)
        return self.limit.value + self.coefficient.value * shape


def fit_law(
    law: str,
    n: ArrayLike,
    values: ArrayLike,
    errors: ArrayLike,
    *,
    limit: float | None = None,
    freedom: ArrayLike = math.inf,
) -> Fit:
    """One law through values with errors.

    Parameters
    ----------
    law
        A name of `SHAPES`.
    n, values, errors
        (size,) input dimensions, values and their standard errors, independent of each other.
    limit
        The value at N = infinity; fitted where not given.
    freedom
        (size,) degrees of freedom of the errors, samples less one; inf where they are known.

    Returns
    -------
    Fit
        Intervals are of 95 %, by the profile of chi-square; an end is NaN where the profile has none, and all are NaN where
        as many numbers are fitted as there are sizes.

    Raises
    ------
    ParameterError
        For an unknown law, fewer than two sizes, fewer than what is fitted, or errors that are not positive.

    >>> n = np.array([100.0, 200.0, 400.0, 800.0])
    >>> found = fit_law("N^-x", n, 1 + 3 * n**-0.5, 1e-3 * np.ones(4))
    >>> round(found.limit.value, 4), round(found.exponent.value, 4), found.degrees
    (1.0, 0.5, 1)
    """
    choice("law", law, list(SHAPES))
    n, values, errors, freedom = _checked(n, values, errors, freedom)
    fitted = 1 + (limit is None) + (law == FREE)
    if len(n) < fitted:
        raise ParameterError(f"{law} has {fitted} numbers to fit, and there are {len(n)} sizes")
    look = _Profile(law, n, values - (limit or 0.0), errors, limit is None)
    best = look.best() if law == FREE else POWER.get(law, 0.0)
    found, _, least = look.solved(np.array([best]))
    degrees, (a, leverage) = len(n) - fitted, look.influence(best)
    value = {"limit": found[0, 0], "coefficient": found[0, 1], "exponent": best}
    estimates = {
        "limit": Estimate(float(limit or 0), 0.0, float(limit or 0), float(limit or 0)),
        "exponent": Estimate(best, 0.0, best, best) if law in POWER else NOTHING,
    }
    spreads = {name: _spread(a[i], errors, leverage, freedom) for i, name in enumerate(look.names)}
    ends = look.ends({name: reach for name, (_, reach) in spreads.items()}, best) if degrees else {}
    for name, (error, _) in spreads.items():
        estimates[name] = Estimate(
            float(value[name]), error if degrees else math.nan, *ends.get(name, (math.nan, math.nan))
        )
    chi2 = float(least[0])
    return Fit(
        law,
        **estimates,
        chi2=chi2,
        degrees=degrees,
        probability=_probability(chi2, degrees, 1 - leverage, freedom),
    )


def verdict(fits: Sequence[Fit]) -> tuple[str, str]:
    """Which of the laws holds, "" where that is not decided, and why: one only where every other that it is not a case of is
    rejected.

    All must have been fitted to the same values, with the same limit. N^-x, which has every power among its cases, is no rival
    of one that is not rejected itself. Nothing is said unless every law leaves `SPARE` degrees of freedom.
    """
    fewest = min(fit.degrees for fit in fits)
    if fewest < SPARE:
        sizes = fits[0].degrees + _numbers(fits[0])
        return "", f"{sizes} sizes, {sizes + SPARE - fewest} are needed"
    left = [fit for fit in fits if not fit.rejected]
    if any(fit.law in POWER for fit in left):
        left = [fit for fit in left if fit.law != FREE]
    if not left:
        return "", "every law is rejected"
    if len(left) > 1:
        names = " and ".join([", ".join(fit.law for fit in left[:-1]), left[-1].law])
        return "", f"{names} are not rejected"
    (only,) = left
    end = only.exponent
    if only.law == FREE and not math.isfinite(end.high - end.low):
        return "", "N^-x alone is not rejected, and x has no interval"
    return only.law, "every other law is rejected"


def _numbers(fit: Fit) -> int:
    """How many were fitted."""
    return 1 + (fit.limit.error != 0) + (fit.law == FREE)


class _Profile:
    """Chi-square and coefficients as functions of the exponent; the limit and c are linear and solved for."""

    def __init__(self, law: str, n: Array, values: Array, errors: Array, free: bool):
        self._shape, self._n, self._errors = SHAPES[law], n, errors
        self._values, self._free = values / errors, free
        self.names = [*(["limit"] if free else []), "coefficient", *(["exponent"] if law == FREE else [])]

    def solved(self, x: Array) -> tuple[Array, Array, Array]:
        """(x, 2) limit and c at exponents (x,), their variances, and chi-square (x,)."""
        f = self._shape(self._n, x[:, None]) / self._errors
        one = np.broadcast_to(float(self._free) / self._errors, f.shape)
        ff, oo, fo = (f * f).sum(1), (one * one).sum(1), (f * one).sum(1)
        fy, oy = f @ self._values, one @ self._values
        if self._free:
            determinant = ff * oo - fo**2
            found = np.stack([ff * oy - fo * fy, oo * fy - fo * oy, ff, oo], axis=1) / determinant[:, None]
        else:
            found = np.stack([np.zeros_like(ff), fy / ff, np.zeros_like(ff), 1 / ff], axis=1)
        rest = self._values - found[:, :1] * one - found[:, 1:2] * f
        return found[:, :2], found[:, 2:], (rest**2).sum(1)

    def chi2(self, x: Array) -> Array:
        """Chi-square (x,)."""
        return self.solved(x)[2]

    def best(self) -> float:
        """The exponent of the least chi-square."""
        low, high = FLATTEST, STEEPEST
        for _ in range(5):
            x = np.linspace(low, high, GRID)
            least = int(np.argmin(self.chi2(x)))
            low, high = x[max(least - 1, 0)], x[min(least + 1, GRID - 1)]
        return float(x[least])

    def influence(self, x: float) -> tuple[Array, Array]:
        """d parameter / d value (parameter, size) at the optimum, linearised, and leverages (size,)."""
        f = self._shape(self._n, np.array(x))
        columns = [*([np.ones_like(f)] if self._free else []), f]
        if "exponent" in self.names:
            columns.append(-self.solved(np.array([x]))[0][0, 1] * np.log(self._n) * f)
        design = np.stack(columns, axis=1) / self._errors[:, None]
        size = np.sqrt((design**2).sum(0))  # columns of one size, for the rank is told by their ratio
        pseudo = np.linalg.pinv(design / size)
        return pseudo / size[:, None] / self._errors, np.einsum("ip,pi->i", design / size, pseudo)

    def ends(self, reach: Mapping[str, float], best: float) -> dict[str, tuple[float, float]]:
        """Where each parameter's profile, chi-square least over the others, has risen by reach^2; NaN where it does not."""
        least = float(self.chi2(np.array([best]))[0])
        found = {}
        for name in self.names:
            low = high = best
            if "exponent" in self.names:
                level = least + reach[name] ** 2
                low, high = (self._end(best, level, side) for side in (FLATTEST, STEEPEST))
            if name != "exponent":
                index = 0 if name == "limit" else 1
                at, spread, chi2 = self.solved(np.append(np.linspace(low, high, GRID), best))
                half = np.sqrt(spread[:, index] * (reach[name] ** 2 - chi2 + least).clip(0))
                low, high = float((at[:, index] - half).min()), float((at[:, index] + half).max())
            found[name] = low, high
        return found

    def _end(self, best: float, level: float, side: float) -> float:
        """The exponent towards `side` at which chi-square first exceeds `level`; NaN where it does not."""
        near, far = best, side
        for _ in range(4):
            steps = np.linspace(near, far, GRID)
            above = np.flatnonzero(self.chi2(steps) > level)
            if not above.size:
                return math.nan
            near, far = steps[max(above[0] - 1, 0)], steps[above[0]]
        return float(far)


def _spread(a: Array, errors: Array, leverage: Array, freedom: Array) -> tuple[float, float]:
    """Standard error of a parameter of influence a (size,), with what estimated weights add to it; and how many nominal
    standard errors an interval reaches."""
    parts = (a * errors) ** 2
    variance = float(parts.sum())
    more = 1 + 4 * float(np.sum(parts * (1 - leverage).clip(0) / freedom)) / variance
    spread = float(np.sum(parts**2 / freedom))
    degrees = variance**2 / spread if spread > 0 else 1e9
    return math.sqrt(variance * more), float(stdtrit(min(degrees, 1e9), (1 + LEVEL) / 2)) * math.sqrt(more)


def _probability(chi2: float, degrees: int, rest: Array, freedom: Array) -> float:
    """Of a chi-square as large: Johansen's F where errors are estimated; `rest` is 1 - leverage (size,)."""
    if degrees < 1:
        return math.nan
    a = float(np.sum(rest**2 / freedom))
    if not a > 0:
        return float(chdtrc(degrees, chi2))
    scale = degrees + 2 * a - 6 * a / (degrees + 2)
    return float(fdtrc(degrees, degrees * (degrees + 2) / (3 * a), chi2 / scale))


def _checked(
    n: ArrayLike, values: ArrayLike, errors: ArrayLike, freedom: ArrayLike
) -> tuple[Array, Array, Array, Array]:
    n, values, errors = (np.asarray(v, dtype=np.float64) for v in (n, values, errors))
    if n.ndim != 1 or not n.shape == values.shape == errors.shape or np.unique(n).size < 2:
        raise ParameterError(
            f"a law needs n, values and errors of one shape (size,), at least two different sizes, got {n.shape}"
        )
    if np.unique(n).size < n.size or not np.all((n > 1) & np.isfinite(n)):
        raise ParameterError("n must be different sizes above 1")
    if not (np.all(np.isfinite(values)) and np.all((errors > 0) & np.isfinite(errors))):
        raise ParameterError("values must be finite and their errors positive")
    freedom = np.broadcast_to(np.asarray(freedom, dtype=np.float64), n.shape)
    if not np.all(freedom >= 1):
        raise ParameterError("freedom must be at least 1 at every size")
    return n, values, errors, freedom
