"""Finite-size claims, from sweep files: crossings of phi, laws of the lowest eigenvalue, Tracy-Widom at a sharp edge.

    python benchmarks/finite_size_claims.py data/finite_size/*.h5

Prints, for each model in the files, the crossings of phi for successive N beside alpha_BBP and the finite-N thresholds of
theory; the laws in N that are left for the lowest eigenvalue (`bbp fit`); and, at a sharp edge below the threshold, the
scaled lowest eigenvalue against Tracy-Widom. The commands that made the files stand in data/README.md.
"""

import sys

import xarray as xr
from spiked_edge import edge_statistics

import theory
from bbp import join
from bbp.analysis import scaling
from bbp.analysis.comparison import compare, table
from bbp.experiments import models
from bbp.files.product import split
from bbp.files.variables import DONE
from theory import finite


def main(paths: list[str]) -> None:
    for sweep in split(join(paths)):
        model = models.of(sweep)
        print(table(compare(sweep, draws=0)), end="\n\n")
        if sweep.sizes["n"] > 1:
            print(scaling.table(scaling.fit(sweep, of=["lowest"])), end="\n\n")
        for n in sweep.n.values:
            half = finite.threshold(model, int(n), draws=400)
            print(f"  N = {n}: half of the draws informative at {half.alpha:.3f} ± {half.error:.3f}")
        for alpha in sweep.alpha.values[sweep.alpha.values < 0.75 * sweep.alpha_bbp]:
            if theory.edge(model, float(alpha)).kind == "sharp":
                sharp_edge(sweep, float(alpha))
        print()


def sharp_edge(sweep: xr.Dataset, alpha: float) -> None:
    print(
        f"  (quenched edge - lowest) kappa at alpha = {alpha:g}; Tracy-Widom: mean -1.2065, variance 1.6078"
    )
    for n in sweep.n.values:
        done = int((sweep.status.sel(n=n, alpha=alpha) == DONE).sum())
        if done < 2:
            continue
        s = edge_statistics(sweep, int(n), alpha)
        print(
            f"    N = {n:5d}, {len(s.scaled)} samples: mean {s.mean.value:.3f} ± {s.mean.error:.3f}, "
            f"variance {s.variance.value:.3f} ± {s.variance.error:.3f}, KS {s.distance.value:.3f} ± {s.distance.error:.3f}; "
            f"raw variance x N {s.lowest.var(ddof=1) * n:.3f}, of it labels {s.share.value:.2f} ± {s.share.error:.2f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
