"""Helpers of the density tests: quadrature over the support and the Dyson equation in mpmath. No test here."""

import math

import mpmath as mp
import numpy as np

import theory
from theory.general.density import density

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def gauss(function, ends):
    """16-point Gauss rule on panels ends (n, 2), one vectorised call: (..., n)."""
    half, middle = np.diff(ends, axis=1) / 2, ends.mean(axis=1, keepdims=True)
    value = function((middle + half * NODES).ravel())
    return np.sum(value.reshape(*value.shape[:-1], *half.shape[:1], NODES.size) * WEIGHTS * half, axis=-1)


def _adaptive(function, breaks, tolerance):
    """Integral between the breaks, panels halved until both halves agree with the whole within tolerance."""
    ends = np.stack([breaks[:-1], breaks[1:]], axis=1)
    total, whole = 0.0, gauss(function, ends)
    for _ in range(60):
        middle = ends.mean(axis=1, keepdims=True)
        halves = np.concatenate([np.hstack([ends[:, :1], middle]), np.hstack([middle, ends[:, 1:]])])
        value = gauss(function, halves)
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
    edge = theory.edge(model, alpha).value
    far = min(right, 400 / model.a if math.isinf(model.p) else abs(edge) + 500 / (model.p * min(model.a, 1)))

    def side(sign):
        return lambda x: function(sign * np.exp(x)) * (np.exp(x) * density(model, alpha, sign * np.exp(x)))

    near = math.log(edge) if edge > 0 else -60.0
    total = _adaptive(side(1.0), np.linspace(near, math.log(far), 12), tolerance)
    if edge < 0:
        total = total + _adaptive(side(-1.0), np.linspace(-60.0, math.log(-edge), 12), tolerance)
    return total


def exact_k(t, p, p_star, a, digits, step=None):
    """K(t) = E[(w - y)/(a + t w + (1 - t) y)] at an mpc t in the upper half plane, by one Laplace integral.

    1/D = int_0^inf e^(-s D) ds along a ray s = r e^(i psi), on which t s and (1 - t) s stay off the negative axis; the
    averages of e^(-s t w), w e^(-s t w) and so on over chi-squares are powers. No formula is shared with the code.
    """
    angle = -(mp.arg(t) + mp.arg(1 - t)) * (mp.mpf("0.25") if t.real > 0 else mp.mpf("0.45"))
    turn = mp.expj(angle)
    half, inverse_p = mp.mpf(p_star) / 2, mp.mpf(0) if p == math.inf else 1 / mp.mpf(p)
    step = step or 2 * (mp.pi / 2 - abs(angle)) / digits / (1 + mp.log1p(abs(t)) / 2)
    shares = [(1, mp.mpf(1))] if p == math.inf else [(1, 1 - inverse_p), (3, inverse_p)]
    total = mp.mpc(0)
    right = math.log(2.5 * digits / float(a * turn.real))
    for n in range(int(-math.log(2.5 * digits) / step) - 1, int(right / step) + 2):
        x = n * step
        s = turn * mp.exp(x - mp.exp(-x))
        y_base = 1 + (1 - t) * s / half
        y_all = y_base**-half
        inner = mp.mpc(0)
        for c, share in shares:
            if p == math.inf:
                w_all = w_mean = mp.exp(-c * t * s)
            else:
                w_base = 1 + 2 * c * t * s * inverse_p
                w_all = w_base ** (-mp.mpf(p) / 2)
                w_mean = c * w_all / w_base
            inner += share * (w_mean * y_all - w_all * y_all / y_base)
        total += mp.exp(-a * s) * inner * s * (1 + mp.exp(-x))
    return step * total


def exact_t(model, alpha, z, start, digits=30):
    """Solution t of -1/t + alpha K(t) = z (units of (p/2) H), to about 10^-digits of itself, by secant steps from `start`.

    The error of a secant step is a constant times the product of the two steps before it: the iteration ends where that
    product is below 10^-digits, or where both values of the equation are the same number, as none is left to gain. A start
    from which eight steps do not get there is a fault of the start.
    """
    with mp.workdps(digits + 5):
        a, alpha, z = mp.mpf(model.a), mp.mpf(alpha), mp.mpmathify(z)

        def equation(t):
            return -1 / t + alpha * exact_k(t, model.p, model.p_star, a, digits) - z

        before, now = mp.mpc(start) * (1 + mp.mpf(2) ** -30), mp.mpc(start)
        value_before, value = equation(before), equation(now)
        for _ in range(8):
            if value == value_before:
                return now
            step = value * (now - before) / (value_before - value)
            done = abs(step * (now - before)) <= mp.mpf(10) ** -digits * abs(now) ** 2
            before, now = now, now + step
            if done:
                return now
            value_before, value = value, equation(now)
    raise AssertionError(f"the secant did not settle from {start}")
