"""Coverage of the nominal 95 % intervals of bbp.analysis.estimates on data whose answer is known.

    python benchmarks/intervals.py [--trials 2000]

Prints, for the mean of normal, exponential and lognormal data, and fractions, the share of trials
whose interval holds the truth (standard error near 0.95: 0.005 at 2000 trials), beside that of the percentile bootstrap.
"""

import argparse

import numpy as np

from bbp.analysis.estimates import bootstrap, fraction

MEANS = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    "lognormal": (lambda rng, n: rng.lognormal(size=n), np.exp(0.5)),
}


def percentile(values, rng):
    drawn = values[rng.integers(values.size, size=(1000, values.size))].mean(axis=-1)
    return np.quantile(drawn, [0.025, 0.975])


def row(name, draw, truth, n, trials):
    rng = np.random.default_rng(0)
    ours = theirs = 0
    for _ in range(trials):
        values = draw(rng, n)
        found = bootstrap(values, rng)
        low, high = percentile(values, rng)
        ours += found.low <= truth <= found.high
        theirs += low <= truth <= high
    print(f"{name:22} n = {n:3}: {ours / trials:.3f}   percentile {theirs / trials:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    trials = parser.parse_args().trials
    for name, (draw, truth) in MEANS.items():
        for n in (16, 32, 64):
            row(f"mean, {name}", draw, truth, n, trials)
    rng = np.random.default_rng(1)
    for n in (8, 16, 64):
        for p in (0.05, 0.2, 0.5):
            found = [fraction(rng.random(n) < p) for _ in range(trials)]
            share = np.mean([e.low <= p <= e.high for e in found])
            print(f"fraction {p:4}          n = {n:3}: {share:.3f}")


if __name__ == "__main__":
    main()
