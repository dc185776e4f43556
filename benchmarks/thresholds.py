"""Thresholds per second on a 100 x 100 map of (p, a), against SciPy's quad and brentq point by point, in one run.

The peer is what one would write first with the same formulas: at each point the integral over s by scipy.integrate.quad
and the root by scipy.optimize.brentq. It runs on a sample of the map's points, spread evenly; both must agree there.

    python benchmarks/thresholds.py [--size 100] [--sample 40]
"""

from __future__ import annotations

import argparse
import math
import time
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from theory.exact.transition import threshold_map

P = 100  # widths 1..P
A = (0.01, 3.0)


def plain_average(p: int, a: float, t: float, which: int) -> float:
    """W (which = 0) or U (1) of theory.exact.averages, p_star = 1, by adaptive quadrature over s."""

    def integrand(s: float) -> float:
        m = 1 / (1 + 2 * (1 - t) * s)
        total = 0.0
        for c, share in ((1, 1 - 1 / p), (3, 1 / p)):
            n = c / (1 + 2 * c * t * s / p)
            mass = math.exp(-a * s - p / 2 * math.log1p(2 * c * t * s / p)) * math.sqrt(m)
            if which == 0:
                total += share * t * t * s * mass * ((n - m) ** 2 + 2 / p * n * n + 2 * m * m)
            else:
                total += share * 2 * t * s * mass * m * (a + n)
        return total

    parts = [0.0, 1.0, 10.0, math.inf]
    return sum(quad(integrand, *ends, epsrel=1e-11, limit=200)[0] for ends in pairwise(parts))


def plain_threshold(p: int, a: float) -> float:
    """alpha_BBP of one model by quad and brentq."""

    def difference(t: float) -> float:
        return plain_average(p, a, t, 0) - plain_average(p, a, t, 1)

    t = 1.0 if difference(1.0) <= 0 else brentq(difference, 1e-3, 1.0, xtol=1e-12)
    return 1 / plain_average(p, a, t, 1)


def main() -> None:
    """Measure both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=100, help="points along each axis of the map")
    parser.add_argument("--sample", type=int, default=40, help="points the peer computes")
    options = parser.parse_args()
    p = np.unique(np.linspace(1, P, options.size).round())[:, None]
    a = np.geomspace(*A, options.size)
    wall, cpu = [], []
    for _ in range(3):
        start = time.perf_counter(), time.process_time()
        found = threshold_map(p, 1, a)
        wall.append(time.perf_counter() - start[0])
        cpu.append(time.process_time() - start[1])
    ours = found.alpha.size / min(wall)
    chosen = np.linspace(0, found.alpha.size - 1, options.sample).astype(int)
    models = [(int(p[i // a.size, 0]), float(a[i % a.size])) for i in chosen]
    begun = time.perf_counter()
    plain = np.array([plain_threshold(*model) for model in models])
    peer = len(models) / (time.perf_counter() - begun)
    worst = np.max(np.abs(plain / found.alpha.ravel()[chosen] - 1))
    share = np.mean(found.discontinuous)
    print(f"map of {p.size} x {a.size}: {ours:,.0f} thresholds/s (best of 3), {share:.0%} discontinuous")
    print(f"  of one core's own time: {found.alpha.size / min(cpu):,.0f} thresholds/s")
    print(f"quad + brentq on {len(models)} of its points: {peer:,.1f} thresholds/s")
    print(f"ratio: {ours / peer:,.0f}; largest relative difference {worst:.1e}")


if __name__ == "__main__":
    main()
