"""Thresholds, edges, outliers and overlaps by another road, in 30-digit arithmetic: slow and obvious.

The fast route averages over y and yhat at once through one Laplace integral in double precision. Here the average over
y is taken analytically, as incomplete gamma functions, after partial fractions in y of phi = f/(1 - g f) and its
powers; the average over yhat by a trapezoid in w, yhat ~ exp(w - exp(-w)) (checked against mpmath.quad); and the
conditions are those of arXiv 2510.18435 as written, in K, S and g, with nothing integrated by parts:

    edge      alpha E[phi^2] = 1/g^2            outlier   1/g + alpha E[phi] = alpha E[y phi]
    overlap   1 / (1 - alpha S'/z'),  S' = E[y phi^2],  z' = -1/g^2 + alpha E[phi^2]

Roots are taken by the secant method from a rough start that the caller gives. All in units of (p/2) H, where t = -g;
r = (1 - t)/t.

    PYTHONPATH=. python tests/theory/oracle.py > data/theory_oracle.json     regenerates the table (minutes)
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from functools import lru_cache

import mpmath as mp
import numpy as np

from theory.exact.averages import Widths
from theory.exact.bulk import edge_root, outlier_root, threshold_root
from theory.exact.transition import critical_normalisation, threshold_map

DIGITS = 30

mp.mp.dps = DIGITS + 5

_NOTHING = mp.mpf(10) ** -38


@dataclass(frozen=True)
class Averages:
    """Averages over the branches and both laws."""

    phi: mp.mpf
    phi2: mp.mpf
    y_phi: mp.mpf
    y_phi2: mp.mpf


@lru_cache(maxsize=100)
def averages(p, p_star, a, r) -> Averages:
    """The averages at t = 1/(1 + r), r >= 0; every argument exact (int, float or mpf)."""
    total = [mp.mpf(0)] * 4
    for c in (1, 3):
        share = mp.mpf(1) / p if c == 3 else 1 - mp.mpf(1) / p
        if share:
            part = _over_yhat(lambda x, c=c: _over_y(p_star, mp.mpf(a), mp.mpf(r), c, x), p, a)
            total = [x + share * y for x, y in zip(total, part, strict=True)]
    return Averages(*total)


def _over_yhat(inner, p, a):
    if math.isinf(p):
        return inner(mp.mpf(1))
    half = mp.mpf(p) / 2
    norm = half**half / mp.gamma(half)
    # The knee stays left of all structure, at yhat about a; the density is a bump of width sqrt(2/p) in w.
    knee = mp.mpf(min(a, 1)) / 10
    step = mp.mpf(min(1 / 12, 0.4 * math.sqrt(2 / p)))
    total = [mp.mpf(0)] * 4
    for i in range(int(-6 / step), int((8 - mp.log(knee)) / step)):
        w = i * step
        x = knee * mp.exp(w - mp.exp(-w))
        weight = step * (1 + mp.exp(-w)) * norm * _power(x, p) * mp.exp(-half * x)
        if weight > _NOTHING:
            total = [s + weight * v for s, v in zip(total, inner(x), strict=True)]
    return total


def by_adaptive_quadrature(p, p_star, a, r, c):
    """E[phi] of one branch with mpmath.quad over yhat: the check of the trapezoid."""
    half = mp.mpf(p) / 2

    def integrand(x):
        density = half**half / mp.gamma(half) * x ** (half - 1) * mp.exp(-half * x)
        return density * _over_y(p_star, mp.mpf(a), mp.mpf(r), c, x)[0]

    return mp.quad(integrand, [0, a, 1, 3, 10, 40, 160])


def _over_y(p_star, a, r, c, x):
    """E over y of phi, phi^2, y phi, y phi^2 at yhat = x; phi = (n - y)/D, D = a + c t x + (1 - t) y, n = c x."""
    # Partial fractions lose digits near t = 1 and for large a, like powers of the pole; mpmath's Gamma, with p_star.
    pole_digits = 0 if r == 0 else abs(math.log10((1 + a) * (1 + r) / r))
    lost = int(5 * pole_digits + p_star)
    with mp.workdps(DIGITS + 15 + lost):
        k = mp.mpf(p_star) / 2
        t, q, n = 1 / (1 + r), r / (1 + r), c * x
        if r == 0:
            d, m2, m3 = a + n, 1 + 1 / k, (1 + 1 / k) * (1 + 2 / k)
            return (n - 1) / d, (n * n - 2 * n + m2) / d**2, (n - m2) / d, (n * n - 2 * n * m2 + m3) / d**2
        pole = (a + t * n) / q
        b = k * pole
        tail = mp.exp(b) * _power(b, p_star - 2) * _upper_gamma(1 - k, b)
        r1 = k * tail  # E[1/(y + pole)]
        r2 = -(k**2) * ((1 + (k - 1) / b) * tail - 1 / b)  # E[1/(y + pole)^2]
        top = n + pole
        return (
            (top * r1 - 1) / q,
            (top**2 * r2 - 2 * top * r1 + 1) / q**2,
            (top * (1 - pole * r1) - 1) / q,
            (top**2 * (r1 - pole * r2) - 2 * top * (1 - pole * r1) + 1) / q**2,
        )


def _upper_gamma(order, b):
    """Gamma(order, b), by the faster error function or exponential integral where it is one of them."""
    if order == 0.5:
        return mp.sqrt(mp.pi) * mp.erfc(mp.sqrt(b))
    return mp.e1(b) if order == 0 else mp.gammainc(order, b)


def _power(x, twice):
    """x^(twice/2), faster than a general power."""
    return x ** (twice // 2) * mp.sqrt(x) if twice % 2 else x ** (twice // 2)


def z(alpha, r, e: Averages):
    """z(g) = 1/g + alpha K."""
    return -(1 + r) + alpha * e.phi


def root(function, guess):
    """Root in r near `guess`, by the secant method in log r: the step after one of 1e-26 leaves 30 digits of it."""
    start = mp.log(mp.mpf(guess))
    found = mp.findroot(
        lambda x: function(mp.exp(x)),
        (start, start + mp.mpf(10) ** -9),
        solver="secant",
        tol=mp.mpf(10) ** -DIGITS,
    )
    return mp.exp(found)


def edge(p, p_star, a, alpha, guess):
    """r at the left edge (0 when smooth)."""
    alpha = mp.mpf(alpha)
    if alpha * averages(p, p_star, a, 0).phi2 <= 1:
        return mp.mpf(0)
    return root(lambda r: alpha * averages(p, p_star, a, r).phi2 / (1 + r) ** 2 - 1, guess)


def point(p, p_star, a, alpha, guess_edge, guess_outlier):
    """Edge, its kind, outlier and overlap at alpha (None where there is no outlier)."""
    alpha = mp.mpf(alpha)
    r_edge = edge(p, p_star, a, alpha, guess_edge)
    at_edge = averages(p, p_star, a, r_edge)
    value = z(alpha, r_edge, at_edge)
    kind = "sharp" if r_edge > 0 else "smooth"
    if value - alpha * at_edge.y_phi <= 0:
        return value, kind, None, None

    def condition(r):
        e = averages(p, p_star, a, r)
        return z(alpha, r, e) - alpha * e.y_phi

    r = root(condition, guess_outlier)
    e = averages(p, p_star, a, r)
    overlap = 1 / (1 - alpha * e.y_phi2 / (-((1 + r) ** 2) + alpha * e.phi2))
    return value, kind, z(alpha, r, e), overlap


def threshold(p, p_star, a, guess):
    """alpha_BBP, its kind and the jump of the overlap."""

    def edge_and_outlier(r):
        e = averages(p, p_star, a, r)
        return (1 + r) ** 2 / e.phi2, (1 + r) / (e.phi - e.y_phi), e

    alpha_edge, alpha_out, e = edge_and_outlier(mp.mpf(0))
    if alpha_out <= alpha_edge:  # the outlier reaches the end of the walk while the edge is still there
        return alpha_out, "discontinuous", 1 / (1 - alpha_out * e.y_phi2 / (-1 + alpha_out * e.phi2))

    def difference(r):
        first, second, _ = edge_and_outlier(r)
        return first - second

    return edge_and_outlier(root(difference, guess))[0], "continuous", mp.mpf(0)


def models():
    """The models of the table: (p, p_star, a)."""
    inf = math.inf
    plain = [
        *((p, 1, a) for p in (1, 2, 3) for a in (1e-4, 0.1, 1.0)),
        *((p, 1, a) for p in (4, 16, 512) for a in (1e-4, 0.3, 3.0)),
        *((p, 50, a) for p in (1, 2, 512) for a in (1e-4, 0.3, 30.0)),
        *((inf, 50, a) for a in (1e-4, 0.4, 30.0)),
        *((1, 2, 0.5), (2, 2, 1.0), (3, 2, 5.0), (8, 3, 0.2), (1, 1, 1e-6), (1, 3, 100.0)),
        *((inf, 1, a) for a in (1e-4, 1.0)),
    ]
    near = []
    for p, p_star in ((1, 1), (2, 1), (4, 1), (2, 2), (64, 1), (1, 50)):
        a_c = critical_normalisation(p, p_star)
        near += [(p, p_star, a_c * (1 - 1e-6)), (p, p_star, a_c * (1 + 1e-6))]
    return plain + near


RATIOS = (0.5, 1 - 1e-6, 1 + 1e-6, 1.3, 6.0)  # alpha / alpha_BBP


def starts(model, alpha):
    """Rough r of the edge and outlier at alpha, from the fast route (NaN and 0 where it sees none)."""
    widths, at = Widths.of([model[0]], model[1], model[2]), np.array([alpha])
    r_edge = edge_root(widths, at)
    return float(r_edge[0]), float(outlier_root(widths, at, r_edge)[0])


def row(p, p_star, a):
    """One model of the table: threshold, and points at RATIOS."""
    alpha, kind, jump = threshold(p, p_star, a, threshold_root(Widths.of([p], p_star, a))[0])
    points = []
    for at in (float(threshold_map(p, p_star, a).alpha) * ratio for ratio in RATIOS):
        value, edge_kind, outlier, overlap = point(p, p_star, a, at, *starts((p, p_star, a), at))
        points.append(
            {
                "alpha": at,
                "edge": text(value),
                "edge_kind": edge_kind,
                "outlier": text(outlier),
                "overlap": text(overlap),
            }
        )
    return {
        "p": "inf" if math.isinf(p) else p,
        "p_star": p_star,
        "a": a,
        "alpha": text(alpha),
        "kind": kind,
        "jump": text(jump),
        "points": points,
    }


def text(number):
    """Decimal string of DIGITS digits; None stays None."""
    return None if number is None else mp.nstr(number, DIGITS)


def main():
    """Print the table, one model a line; the count goes to stderr."""
    about = (
        "Units of (p/2) H. Regenerate: PYTHONPATH=. python tests/theory/oracle.py > data/theory_oracle.json"
    )
    table = models()
    print('{"about": ' + json.dumps(about) + ',\n "models": [')
    for i, model in enumerate(table):
        print(json.dumps(row(*model)) + ("," if i + 1 < len(table) else "\n]}"), flush=True)
        print(f"{i + 1}/{len(table)} {model}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
