"""Averages over (y, yhat) of the resolved Hessian weights, by one Laplace integral; derivation: docs/theory.md, "Averages".

In units of (p/2) H, with t = -2g/p in (0, 1] and c = 1 (multiplicity p - 1) or 3 (multiplicity 1),

    f = (c yhat - y)/(a + y),    D = a + c t yhat + (1 - t) y > 0,    phi = f/(1 - g f) = (c yhat - y)/D.

1/D^k = int_0^inf s^(k-1) e^(-s D) ds / (k-1)! tilts the chi-squares of c yhat and y to gamma laws of means
m_hat = c/(1 + 2cts/p), m = 1/(1 + 2(1-t)s/p_star): every average is one trapezoidal sum over x,
s = s_0 exp(x - exp(-x)), of positive terms.

A kernel is the mean of the averaged function over the tilted laws at one s: a function of a `Tilt`, (models, nodes). Kernels
bear the letter of their average: K, W, U and V of docs/notation.md, `_slope` their derivative in t, `_in_a` in a. With noise
Delta, y and a are in units of 1 + Delta and b = 1/(1 + Delta) multiplies yhat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = Any  # float64 or longdouble arrays

# Steps are dyadic, hence exact in every precision; errors are below 1e-15 and 1e-18 (the tests halve them).
_STEP = {np.dtype(np.float64): 13 / 64, np.dtype(np.longdouble): 10 / 64}
_RAY_STEP = 1 / 10  # times cos theta, the width of the strip
_START = -4.0  # exp(-4 - exp(4)) = 4e-26: what lies left of it is below rounding
_KNEE = 0.02  # s_0 in units of 1/(1 + a): below it the integrand is a plain power of s
_CHUNK = 128  # models in flight at a time: their nodes then stay in cache


@dataclass(frozen=True)
class Widths:
    """Models as arrays of one shape: 2/p (0 for p = inf), 2/p_star, a b, and b = 1/(1 + noise), the clean part of y."""

    two_over_p: Array
    two_over_p_star: Array
    a: Array
    clean: Array

    @classmethod
    def of(cls, p: Any, p_star: Any, a: Any, noise: Any = 0.0) -> Widths:
        """Broadcast p, p_star, a and the noise Delta (already validated) against one another."""
        p, p_star, a, noise = np.broadcast_arrays(*(np.asarray(v, float) for v in (p, p_star, a, noise)))
        return cls(2 / p, 2 / p_star, a / (1 + noise), 1 / (1 + noise))

    def broadcast(self, shape: tuple[int, ...]) -> Widths:
        """The same models repeated to a wider shape."""
        return self if shape == self.shape else Widths(*(np.broadcast_to(v, shape) for v in self.fields))

    def take(self, index: Any) -> Widths:
        """The models at `index` (anything NumPy indexes with)."""
        return Widths(*(v[index] for v in self.fields))

    def astype(self, dtype: Any) -> Widths:
        """The same models in another precision: 2/p is recomputed, to be right to its last bit."""
        if self.a.dtype == dtype:
            return self
        two_over_p, two_over_p_star, a, clean = (np.asarray(v, dtype=dtype) for v in self.fields)
        two = two_over_p.dtype.type(2)
        return Widths(
            np.where(two_over_p > 0, two / np.rint(two / np.where(two_over_p > 0, two_over_p, two)), 0),
            two / np.rint(two / two_over_p_star),
            a,
            clean,
        )

    @property
    def fields(self) -> tuple[Array, Array, Array, Array]:
        """The four arrays in the order of the constructor."""
        return self.two_over_p, self.two_over_p_star, self.a, self.clean

    @property
    def noise(self) -> Array:
        """Delta."""
        return 1 / self.clean - 1

    @property
    def excess(self) -> Array:
        """2/p - 2/p_star, right to its last digits however close the two are."""
        k, k_star = self.two_over_p, self.two_over_p_star
        finite = np.where(k > 0, k, 1)
        return np.where(k > 0, k * k_star * (np.rint(2 / k_star) - np.rint(2 / finite)) / 2, -k_star)

    @property
    def noiseless(self) -> bool:
        """Whether no model has noise."""
        return bool(np.all(self.clean == 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the arrays."""
        return np.shape(self.a)


@dataclass(frozen=True)
class Tilt:
    """The tilted laws of y and b c yhat at the nodes s (models, nodes) of one branch c; parameters and t, 1 - t are columns.

    m         mean of y
    exponent  -log of the mean of exp(-s (a + (1-t) y))
    """

    models: Widths
    t: Array
    rest: Array
    s: Array
    m: Array
    exponent: Array
    c: int

    @property
    def lost(self) -> Array:
        """m - 1, with the digits of a small one."""
        return -self.models.two_over_p_star * self.rest * self.s * self.m

    @cached_property
    def scale(self) -> Array:
        """b c, the factor of yhat in the weight."""
        return self.c * self.models.clean

    @cached_property
    def m_hat(self) -> Array:
        """Mean of b c yhat."""
        return self.scale / (1 + self.models.two_over_p * self.scale * self.t * self.s)

    @cached_property
    def gap(self) -> Array:
        """Mean of b c yhat - y, free of cancellation for c = 1 without noise."""
        # m_hat - m = m_hat m (1/m - 1/m_hat), each inverse linear in s
        skew = self.models.two_over_p_star * self.rest - self.models.two_over_p * self.t
        return self.m_hat * self.m * ((self.scale - 1) / self.scale + skew * self.s)

    def square(self, bias: int) -> Array:
        """Mean of (b c yhat - y)^2 under the law of y biased by y^bias."""
        # Gamma laws of means m_hat and m: variances k m_hat^2 and k_star m^2; y^bias adds bias to the shape k_star^-1 of y.
        k, k_star = self.models.two_over_p, self.models.two_over_p_star
        return (
            (self.gap - bias * k_star * self.m) ** 2
            + k * self.m_hat**2
            + k_star * (1 + bias * k_star) * self.m**2
        )

    @cached_property
    def mass(self) -> Array:
        """Mean of exp(-s D)."""
        return np.exp(-(self.exponent + _cumulant(self.models.two_over_p, self.scale * self.t * self.s)))


def _cumulant(two_over_k: Array, x: Array) -> Array:
    """-log E exp(-x y) = (k/2) log(1 + 2x/k) of a chi-square mean of k squares, and x for k = inf."""
    finite = two_over_k > 0
    if np.all(finite):
        return _log1p(two_over_k * x) / two_over_k
    return np.where(finite, _log1p(two_over_k * x) / np.where(finite, two_over_k, 1), x)


def _log1p(z: Array) -> Array:
    """log(1 + z); for complex z built from real functions, several times faster than NumPy's."""
    if not np.iscomplexobj(z):
        return np.log1p(z)
    out = np.empty_like(z)
    # |1 + z|^2 - 1, without the digits that 1 would take from a small z
    out.real = np.log1p(z.real * (2 + z.real) + z.imag**2) / 2
    out.imag = np.arctan2(z.imag, 1 + z.real)
    return out


Kernel = Callable[[Tilt], Array]


def kernel_k(tilt: Tilt) -> Array:
    """Kernel of K = E[phi]: z = -1/t + alpha K."""
    return tilt.gap


def kernel_edge(tilt: Tilt) -> Array:
    """Kernel of K - W/t = E[(c yhat - y)(a + y)/D^2], which is z/alpha where alpha W = 1."""
    # A factor y is the mean m times an average under the law biased by y, whose mean is larger by k_star m.
    with_y = tilt.m * (tilt.gap - tilt.models.two_over_p_star * tilt.m)
    return tilt.s * (tilt.models.a * tilt.gap + with_y)


def kernel_edge_wide(tilt: Tilt) -> Array:
    """`kernel_edge` for a >> yhat, free of the cancellation between branches, where b (1 + 2/p) is close to 1: see `_apart`."""
    k_star, m, s, a = tilt.models.two_over_p_star, tilt.m, tilt.s, tilt.models.a
    gap = tilt.models.clean * (tilt.models.two_over_p - tilt.models.noise) + _growth(tilt) - tilt.lost
    return _apart(tilt, kernel_edge(tilt), s * ((a + m) * gap - k_star * m**2))


def kernel_outlier_wide(tilt: Tilt) -> Array:
    """Kernel of E[(b y + 1 - b) phi], z/alpha at the outlier, for a >> yhat, free of the cancellation between branches.

    For a -> inf it is b (2/p - 2/p_star - Delta) / a, 0 for p = p_star without noise: what is left is smaller by 1/a.
    """
    k, k_star, b, m = tilt.models.two_over_p, tilt.models.two_over_p_star, tilt.models.clean, tilt.m
    each = b * m * (tilt.gap - k_star * m) + (1 - b) * tilt.gap
    far = b * (tilt.models.excess - tilt.models.noise)
    moved = tilt.lost * (b**2 * (1 + k) - b * (1 + k_star) * (m + 1) - (1 - b))
    return _apart(tilt, each, far + (b * m + 1 - b) * _growth(tilt) + moved)


def _apart(tilt: Tilt, each: Array, mean: Array) -> Array:
    """A kernel `each` of either branch whose mean over the branches, where yhat does not weigh, is known as `mean`.

    With e_c the mass of branch c and E that without yhat, sum_c share_c e_c each_c = sum_c share_c (e_c - E) each_c + E mean.
    The terms of one kernel may cancel where all e_c are close to E, at a >> yhat; those of this form do not.
    """
    seen = _cumulant(tilt.models.two_over_p, tilt.scale * tilt.t * tilt.s)
    return np.exp(seen) * mean - np.expm1(seen) * each


def _growth(tilt: Tilt) -> Array:
    """Mean over the branches of m_hat(s) - m_hat(0)."""
    k, total = tilt.models.two_over_p, 0.0
    for c in (1, 3):
        scale = c * tilt.models.clean
        total -= _share(tilt.models, c) * scale**2 * k * tilt.t * tilt.s / (1 + scale * k * tilt.t * tilt.s)
    return total


def kernel_square(tilt: Tilt) -> Array:
    """Kernel of E[(b c yhat - y) phi] = E[(b c yhat - y)^2 / D]."""
    return tilt.square(0)


def kernel_w(tilt: Tilt) -> Array:
    """Kernel of W = E[(t phi)^2], the variance that makes the edge: alpha W = 1."""
    return tilt.t**2 * tilt.s * tilt.square(0)


def kernel_w_slope(tilt: Tilt) -> Array:
    """Kernel of dW/dt = 2t E[(c yhat - y)^2 (a + y) / D^3]."""
    return tilt.t * tilt.s**2 * (tilt.models.a * tilt.square(0) + tilt.m * tilt.square(1))


def kernel_u(tilt: Tilt) -> Array:
    """Kernel of U = t E[(1 - y) phi] = (2t/p_star) E[y (a + c yhat) / D^2]; the outlier: alpha U = 1.

    The second form, by parts in y (Stein's lemma for the chi-square), is a sum of positive terms. With noise it is b times
    that: 1 - E[u^2 | y] = b (1 - y).
    """
    return tilt.models.clean * (
        tilt.models.two_over_p_star * tilt.t * tilt.s * tilt.m * (tilt.models.a + tilt.m_hat)
    )


def kernel_u_slope(tilt: Tilt) -> Array:
    """Kernel of dU/dt = U/t - (4t/p_star) E[y (a + c yhat)(c yhat - y) / D^3]."""
    k, k_star = tilt.models.two_over_p, tilt.models.two_over_p_star
    spread = (tilt.models.a + tilt.m_hat) * (tilt.gap - k_star * tilt.m) + k * tilt.m_hat**2
    return tilt.models.clean * (
        k_star * tilt.s * tilt.m * (tilt.models.a + tilt.m_hat)
        - k_star * tilt.t * tilt.s**2 * tilt.m * spread
    )


def kernel_u_in_a(tilt: Tilt) -> Array:
    """Kernel of dU/da at t = 1, where U = (2/p_star) E[1/D]: -(2/p_star) E[1/D^2]."""
    return -tilt.models.clean * tilt.models.two_over_p_star * tilt.s


def kernel_w_minus_u(tilt: Tilt) -> Array:
    """Kernel of W - U at t = 1, E[((c yhat - 1)^2 + (2/p_star)(1 - c yhat - a)) / (c yhat + a)^2].

    U = (2/p_star) E[1/D] is taken as (2/p_star) E[D/D^2], and 1 - c yhat has the mean -gap, which is O(1/p) for c = 1
    without cancellation. Near a_c, where a and the difference are O(1/p), so is every term: no digit is lost at large p.
    """
    k, k_star, clean = tilt.models.two_over_p, tilt.models.two_over_p_star, tilt.models.clean
    lost = k_star * (1 - clean)  # W does not shrink with the signal
    return tilt.s * (tilt.gap**2 + k * tilt.m_hat**2 - k_star * clean * (tilt.gap + tilt.models.a) + lost)


def kernel_w_minus_u_in_a(tilt: Tilt) -> Array:
    """Kernel of d(W - U)/da at t = 1."""
    return -tilt.s * (tilt.models.clean * tilt.models.two_over_p_star + kernel_w_minus_u(tilt))


def kernel_v(tilt: Tilt) -> Array:
    """Kernel of V = E[y (t phi)^2], which fixes the overlap; with noise b V + (1 - b) W."""
    seen = tilt.t**2 * tilt.s * tilt.m * tilt.square(1)
    return _blurred(tilt, seen, kernel_w)


def kernel_v_slope(tilt: Tilt) -> Array:
    """Kernel of dV/dt = 2t E[y (c yhat - y)^2 (a + y) / D^3]."""
    twice = (1 + tilt.models.two_over_p_star) * tilt.m
    seen = tilt.t * tilt.s**2 * tilt.m * (tilt.models.a * tilt.square(1) + twice * tilt.square(2))
    return _blurred(tilt, seen, kernel_w_slope)


def _blurred(tilt: Tilt, seen: Array, unseen: Kernel) -> Array:
    """Average with the factor E[u^2 | y] = b y + 1 - b, from those with y and with 1."""
    if tilt.models.noiseless:
        return seen
    return tilt.models.clean * seen + (1 - tilt.models.clean) * unseen(tilt)


def kernel_yhat_phi(tilt: Tilt) -> Array:
    """Kernel of E[yhat phi] of a single branch."""
    return tilt.m_hat / tilt.scale * (tilt.gap + tilt.models.two_over_p * tilt.m_hat)


def kernel_radial(tilt: Tilt) -> Array:
    """Kernel of E[yhat (yhat - y)/(a + y)], at t = 0 of branch 1: yhat is free, E[yhat^2] = 1 + 2/p."""
    k, k_star, clean = tilt.models.two_over_p, tilt.models.two_over_p_star, tilt.models.clean
    return clean * k + k_star * tilt.s * tilt.m - (1 - clean)


def average(
    kernels: Sequence[Kernel], models: Widths, t: Array, rest: Array, branches: Sequence[int] = (1, 3)
) -> list[Array]:
    """Averages of `kernels` at 0 < t <= 1, one array of the shape of t for each; rest = 1 - t is given apart so that it keeps
    its digits near t = 1. The precision is that of t: float64, or longdouble for a polish.

    branches   (1, 3) for the mixture (1 - 1/p) [c = 1] + (1/p) [c = 3], or a single branch"""
    return _chunked(kernels, models, t, rest, branches, _straight)


def continued(kernels: Sequence[Kernel], models: Widths, t: Array, rest: Array) -> list[Array]:
    """The same at t > 1 in float64, where D vanishes at some y: principal value, Hadamard finite part at the double pole.

    The half-sum of the analytic continuations around either side, which is what these mean, is the real part of one
    of them. Continuing t off the real axis turns the path of s with it: the same integral along the ray
    s = |s| e^(i theta) keeps clear of the branch point at s = p_star/(2(t-1))."""
    return _chunked(kernels, models, t, rest, (1, 3), _ray)


def _chunked(
    kernels: Sequence[Kernel],
    models: Widths,
    t: Array,
    rest: Array,
    branches: Sequence[int],
    path: Callable[[Widths], tuple[Array, Array]],
) -> list[Array]:
    t, rest = np.asarray(t), np.asarray(rest)
    flat = Widths(*(np.ravel(v) for v in models.broadcast(t.shape).fields)).astype(t.dtype)
    shape, t, rest = t.shape, t.ravel(), rest.ravel()
    # Models of like a need like nodes: sorted, no chunk carries the long tail of one small a.
    order = np.lexsort((flat.a, flat.two_over_p_star))
    out = np.empty((len(kernels), t.size), dtype=t.dtype)
    for start in range(0, t.size, _CHUNK):
        part = order[start : start + _CHUNK]
        out[:, part] = _sums(kernels, flat.take(part), t[part], rest[part], branches, path)
    return [v.reshape(shape) for v in out]


def _sums(
    kernels: Sequence[Kernel],
    models: Widths,
    t: Array,
    rest: Array,
    branches: Sequence[int],
    path: Callable[[Widths], tuple[Array, Array]],
) -> list[Array]:
    s, weight = path(models)
    columns, at, beyond = models.take((slice(None), None)), t[:, None], rest[:, None]
    # The law of y is the same in both branches.
    m = 1 / (1 + columns.two_over_p_star * beyond * s)
    exponent = columns.a * s + _cumulant(columns.two_over_p_star, beyond * s)
    totals = [np.zeros_like(t) for _ in kernels]
    for c in branches:
        share = _share(models, c) if len(branches) > 1 else np.ones_like(t)
        if not np.any(share):
            continue
        tilt = Tilt(columns, at, beyond, s, m, exponent, c)
        density = weight * tilt.mass
        for total, kernel in zip(totals, kernels, strict=True):
            total += share * np.einsum("ij,ij->i", density, kernel(tilt)).real
    return totals


def _share(models: Widths, c: int) -> Array:
    """Multiplicity of branch c in the trace: 1/p for c = 3, the rest for c = 1."""
    return models.two_over_p / 2 if c == 3 else 1 - models.two_over_p / 2


def _straight(models: Widths) -> tuple[Array, Array]:
    """Nodes s and weights ds (models, nodes) on the real axis, in the precision of the models."""
    return _nodes(models.a, models.a, _STEP[models.a.dtype])


def _ray(models: Widths) -> tuple[Array, Array]:
    """Nodes and weights on the ray. Its angle is 45 degrees, or steeper for large p_star: close to the branch point
    the tilted mass grows like (sin theta)^(-p_star/2), kept below 2 by cos theta = (2/p_star)^(1/2) / 2."""
    cosine = np.minimum(np.sqrt(0.5), np.sqrt(models.two_over_p_star) / 2)
    angle = np.arccos(cosine)
    s, weight = _nodes(models.a, models.a * cosine, _RAY_STEP * float(np.min(cosine)))
    turn = np.exp(1j * angle)[:, None]
    return s * turn, weight * turn


def _nodes(a: Array, decay: Array, step: float) -> tuple[Array, Array]:
    """Trapezoid in x with s = s_0 exp(x - exp(-x)): |s| and d|s| (models, nodes), out to exp(-decay s) = 1e-20."""
    knee = a.dtype.type(_KNEE) / (1 + a)
    # exp(-46) = 1e-20, and s = s_0 e^x at large x
    stop = math.log(46 / float(np.min(decay * knee))) + 0.1
    x = np.arange(math.floor(_START / step), math.ceil(stop / step) + 1).astype(a.dtype) * a.dtype.type(step)
    s = knee[:, None] * np.exp(x - np.exp(-x))
    # ds = s (1 + exp(-x)) dx
    return s, s * (a.dtype.type(step) * (1 + np.exp(-x)))
