"""Accuracy of the share of eigenvalues below x at equal cost: the known atom by itself, against plain Lanczos quadrature.

    python benchmarks/spectral_quadrature.py [--repeats 20]

Both take the same probes and the same number of products. Printed for each model: the root mean square error of
`fraction_below` at each x over the repeats (each with probes of its own), and the ratio of the two over all x.
"""

import argparse

import numpy as np

from sims.density import lanczos_quadrature
from sims.hessian import dense_blas, weights_of
from sims.instance import draw
from sims.operator import hessian_operator
from theory import Network

CASES = [
    (Network(1, 1, 0.5), 400, 0.5),
    (Network(2, 1, 0.3), 200, 0.8),
    (Network(1, 2, 1.0), 400, 0.25),
]
SHARES = np.array(
    [0.05, 0.25, 0.5, 0.75, 0.95]
)  # of the negative and of the positive eigenvalues: where x lies


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--probes", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    for model, n, alpha in CASES:
        drawn = draw(model, n, alpha)
        operator = hessian_operator(drawn)
        values = np.linalg.eigvalsh(dense_blas(np.asarray(drawn.data)[: drawn.m], weights_of(drawn)))
        zero = 1e-9 * np.abs(values).max()
        x = np.concatenate(
            [np.quantile(values[values < -zero], SHARES), np.quantile(values[values > zero], SHARES)]
        )
        exact = np.mean(values[:, None] < x, axis=0)
        rms = {}
        for name, atom in (("plain", 0.0), ("atom by itself", None)):
            errors = [
                lanczos_quadrature(
                    operator, probes=args.probes, steps=args.steps, seed=s, atom=atom
                ).fraction_below(x)[0]
                - exact
                for s in range(args.repeats)
            ]
            rms[name] = np.sqrt(np.mean(np.square(errors), axis=0))
            print(
                f"p={model.p} p*={model.p_star} a={model.a} N={n} alpha={alpha} {name:>15}:",
                np.round(rms[name], 4),
            )
        ratio = np.sqrt(np.mean(rms["plain"] ** 2) / np.mean(rms["atom by itself"] ** 2))
        print(f"    ratio of errors over all x: {ratio:.1f}")


if __name__ == "__main__":
    main()
