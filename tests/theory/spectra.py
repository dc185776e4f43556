"""Helpers of the density tests: quadrature over the support and the Dyson equation in mpmath. No test here."""

import math

import mpmath as mp
import numpy as np

from theory.bulk import bulk_edge
from theory.density import density

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def _gauss(function, ends):
    """16-point Gauss rule on panels ends (n, 2), one vectorised call: (..., n)."""
    half, middle = np.diff(ends, axis=1) / 2, ends.mean(axis=1, keepdims=True)
    value = function((middle + half * NODES).ravel())
    return np.sum(value.reshape(*value.shape[:-1], *half.shape[:1], NODES.size) * WEIGHTS * half, axis=-1)


def _adaptive(function, breaks, tolerance):
    """Integral between the breaks, panels halved until both halves agree with the whole within tolerance."""
    ends = np.stack([breaks[:-1], breaks[1:]], axis=1)
    total, whole = 0.0, _gauss(function, ends)
    for _ in range(60):
        middle = ends.mean(axis=1, keepdims=True)
        halves = np.concatenate([np.hstack([ends[:, :1], middle]), np.hstack([middle, ends[:, 1:]])])
        value = _gauss(function, halves)
        left, right = np.split(value, 2, axis=-1)
        scale = tolerance * np.abs(total + np.sum(left + right, axis=-1, keepdims=True)).reshape(
            *value.shape[:-1], 1
        )
        rough = np.any(np.atleast_2d(np.abs(left + right - whole) > scale), axis=0)
        total = total + np.sum((left + right)[..., ~rough], axis=-1, keepdims=True)
        if not np.any(rough):
            return total[..., 0]
        ends = np.concatenate([halves[: rough.size][rough], halves[rough.size :][rough]])
        whole = np.concatenate([left[..., rough], right[..., rough]], axis=-1)
    raise AssertionError("the integral over the support did not settle")


def integrate(model, alpha, function, right=math.inf, tolerance=1e-13):
    """int function(lambda) rho(lambda) d lambda, in the variable log |lambda| on both sides of 0; shape (...) out.

    function is vectorised, shape (..., n) out.
    """
    edge = bulk_edge(model, alpha).value
    far = min(right, 400 / model.a if math.isinf(model.p) else abs(edge) + 500 / (model.p * min(model.a, 1)))

    def side(sign):
        return lambda x: function(sign * np.exp(x)) * (np.exp(x) * density(model, alpha, sign * np.exp(x)))

    near = math.log(edge) if edge > 0 else -60.0
    total = _adaptive(side(1.0), np.linspace(near, math.log(far), 12), tolerance)
    if edge < 0:
        total = total + _adaptive(side(-1.0), np.linspace(-60.0, math.log(-edge), 12), tolerance)
    return total


def exact_k(t, p, p_star, a, digits):
    """K(t) = E[f/(1 + t f)], t an mpc in the upper half plane: inner average closed, outer one by the trapezoid rule.

    E[1/(y + c)] over the teacher = k e^x x^(k-1) Gamma(1-k, x) with k = p_star/2, x = k c. The outer integral runs along
    the ray yhat = e^(u - i/2), clear of the singularity at yhat = -a/t.
    """
    half_teacher, s = mp.mpf(p_star) / 2, 1 - t

    def inner(w):
        c = (a + t * w) / s
        x = half_teacher * c
        if p_star == 1:
            mean = mp.sqrt(mp.pi / (2 * c)) * mp.exp(x) * mp.erfc(mp.sqrt(x))
        else:
            mean = half_teacher * mp.exp(x) * x ** (half_teacher - 1) * mp.gammainc(1 - half_teacher, x)
        return ((a + w) * mean / s - 1) / s

    if p == math.inf:
        return inner(mp.mpf(1))
    half = mp.mpf(p) / 2
    turn = mp.expj(mp.mpf(-0.5))
    log_norm = half * mp.log(half) - mp.loggamma(half)
    step = mp.mpf(2 * math.pi) / (2.5 * digits)
    low, high = -2.4 * digits / half, math.log(2.8 * digits / float(half) + 4)
    total = mp.mpc(0)
    for n in range(int(low / step) - 1, int(high / step) + 2):
        yhat = turn * mp.exp(n * step)
        weight = mp.exp(log_norm + half * mp.log(yhat) - half * yhat)
        value = inner(3 * yhat) / p
        if p > 1:
            value += inner(yhat) * (p - 1) / p
        total += weight * value
    return step * total


def exact_t(model, alpha, z, start, digits=30, steps=3):
    """Solution t of -1/t + alpha K(t) = z (units of (p/2) H) by `steps` secant steps from `start`, all in `digits`."""
    with mp.workdps(digits + 5):
        a, alpha, z = mp.mpf(model.a), mp.mpf(alpha), mp.mpmathify(z)

        def equation(t):
            return -1 / t + alpha * exact_k(t, model.p, model.p_star, a, digits) - z

        before, now = mp.mpc(start) * (1 + mp.mpf(2) ** -30), mp.mpc(start)
        value_before = equation(before)
        for _ in range(steps):
            value = equation(now)
            before, now, value_before = now, now - value * (now - before) / (value - value_before), value
        return now
