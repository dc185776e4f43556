"""Speed of the spectral density: 2,000 points, against plain fixed-point iteration of the Dyson equation.

    python benchmarks/density.py [--points 2000] [--repeats 5]

The peer is what one writes first: g <- 1/(z - alpha E[f/(1 - g f)]) at Im z = ETA |edge|, damped, from g = 1/z, the average
over Gauss nodes of the outputs, all energies at once, until the step is below 1e-6. It is measured in the same process.
Printed for each model: seconds of the first call (which also builds the law of the weight), of later calls, of the peer,
the ratio of peer to first call, the peer's iterations, and the largest difference between the two, relative to the largest
density (it is the peer's blur and quadrature). Energies within AWAY |edge| of 0 are left out of it: for alpha < 1 the peer
sees the atom there, blurred.
"""

import argparse
import math
import time

import numpy as np

import theory
from theory import Network
from theory.exact.weight_law import weight_law
from theory.general.density import density

ETA, AWAY = 1e-3, 0.3  # of |edge|
MODELS = [
    (Network(1, 1, 0.5), 2.0),
    (Network(2, 1, 0.3), 1.5),
    (Network(2, 1, 1.0), 0.8),
    (Network(16, 1, 1.0), 0.7),
    (Network(512, 1, 1.0), 1.2),
    (Network(math.inf, 1, 1.0), 0.7),
]


def output_nodes(model, order=40):
    """Values f and probabilities of the weight's eigenvalues, in units of H ((p/2) H for p = inf), on Gauss nodes."""

    def chi_square(dof):
        x, weight = np.polynomial.legendre.leggauss(order)
        top = math.sqrt(dof) + 7  # in the radius: smooth at 0 for every dof
        radius = top * (x + 1) / 2
        log = (dof - 1) * np.log(radius) - radius**2 / 2
        weight = weight * np.exp(log - log.max())
        return radius**2 / dof, weight / weight.sum()

    y, wy = chi_square(model.p_star)
    yhat, wh = (np.ones(1), np.ones(1)) if math.isinf(model.p) else chi_square(model.p)
    share, unit = (0.0, 1.0) if math.isinf(model.p) else (1 / model.p, 2 / model.p)
    parts = [(1.0, 1 - share), (3.0, share)]
    f = [unit * (c * yhat[:, None] - y) / (model.a + y) for c, s in parts if s > 0]
    prob = [s * wh[:, None] * wy for c, s in parts if s > 0]
    return np.concatenate([x.ravel() for x in f]), np.concatenate([x.ravel() for x in prob])


def fixed_point(model, alpha, lam, eta, tolerance=1e-6, steps=5000):
    """Density at lam from the damped plain iteration, and the number of iterations."""
    f, prob = output_nodes(model)
    z = lam + 1j * eta
    g = 1 / z
    todo = np.arange(lam.size)
    count = 0
    while todo.size and count < steps:
        count += 1
        mean = np.concatenate(
            [(1 / (1 - np.outer(block, f))) @ (prob * f) for block in np.array_split(g[todo], 16)]
        )
        new = 0.5 * g[todo] + 0.5 / (z[todo] - alpha * mean)
        moving = np.abs(new - g[todo]) > tolerance * np.abs(new)
        g[todo] = new
        todo = todo[moving]
    return -g.imag / math.pi, count


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    density(Network(3, 1, 0.9), 1.0, 0.5)  # first call of every library routine, outside the clock
    print(f"{options.points} points; seconds")
    print(f"{'model':>26} {'first':>8} {'later':>8} {'peer':>8} {'ratio':>7} {'steps':>6} {'difference':>11}")
    for model, alpha in MODELS:
        edge = theory.edge(model, alpha).value
        lam = edge + np.linspace(-0.05, 8, options.points) * abs(edge)
        first, later = math.inf, math.inf
        for _ in range(options.repeats):
            weight_law.cache_clear()
            first = min(first, timed(lambda m=model, a=alpha, x=lam: density(m, a, x))[0])
            seconds, rho = timed(lambda m=model, a=alpha, x=lam: density(m, a, x))
            later = min(later, seconds)
        peer, (plain, count) = timed(
            lambda m=model, a=alpha, x=lam, e=edge: fixed_point(m, a, x, ETA * abs(e))
        )
        away = np.abs(lam) > AWAY * abs(edge)
        error = np.max(np.abs(plain - rho)[away]) / np.max(rho[away])
        name = f"p={model.p} p*={model.p_star} a={model.a} alpha={alpha}"
        print(
            f"{name:>26} {first:8.3f} {later:8.3f} {peer:8.2f} {peer / first:7.0f} {count:6d} {error:11.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
