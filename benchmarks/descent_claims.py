"""What gradient descent shows: width helps, where recovery begins beside alpha_BBP, and the direction that is lost.

    python benchmarks/descent_claims.py --out DIR          24 samples at N = 100: four minutes
    python benchmarks/descent_claims.py --out DIR --quick  8 samples at N = 60
    python benchmarks/descent_claims.py --out DIR --recovery
                                                           gradient flow at N = 100 to 1,000: half an hour of a core,
                                                           most of it N = 1,000; writes DIR/recovery.h5, a figure's data

Runs `bbp descent` for each case into DIR (a finished file of the same case is read, not computed again), prints the
numbers with their errors, and draws DIR/descent_recovery_a*.png and DIR/descent_path.png. Nothing is fitted or
chosen by its result: the grids are stated below.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bbp import gallery, plot
from bbp.__main__ import dispatch
from bbp.analysis.estimates import with_interval
from bbp.analysis.laws import POWER, fit_law
from bbp.analysis.recovery import chance, recovery
from bbp.console import program
from bbp.files import dataset
from bbp.gallery import recovery as recovery_figure
from bbp.plots import descent as descent_plots
from bbp.plots.style import figure_style

GRID = "0.5:4:8"
# a: the cases (p, N) at p* = 1
FULL = {0.5: [(1, 100), (2, 100), (4, 100)], 1.5: [(1, 100), (2, 100)]}
QUICK = {0.5: [(1, 60), (2, 60), (4, 60)], 1.5: [(1, 60), (2, 60)]}
SAMPLES = {False: 24, True: 8}  # quick or not
FLOW = {"steps": 40_000, "loss-floor": 1e-6, "records": 12}
RANDOM = {"start": "random", "eigenpairs": 0}
# p: N, samples, seed, alphas
RECOVERY = {
    1: [(100, 96, 0, "2:3.5:4"), (200, 64, 0, "2:3.5:4"), (400, 48, 0, "2:3.5:4"), (1000, 16, 0, "2:3.5:4")],
    2: [
        (100, 96, 0, "1.2:2.2:6"), (200, 64, 0, "1.2:2.2:6"), (400, 48, 0, "1.2:2.2:6"),
        (1000, 8, 0, "1.6:2.2:4"), (1000, 8, 1, "1.6:2.2:4"),
    ],
}  # fmt: skip


def descended(path: Path, options: Mapping[str, Any]) -> xr.Dataset:
    """Converged gradient flows with these options of `bbp descent`, from the file at `path` or computed."""
    given = {"out": path} | FLOW | options
    words = [str(word) for name, value in given.items() for word in (f"--{name}", value)]
    if dispatch(["descent", *words, "--resume"]) != program.OK:
        raise SystemExit(f"bbp descent failed for {path}")
    return dataset.open(path)


def recovery_claim(folder: Path) -> list[str]:
    """Where half of the samples recover against N, extrapolated; into recovery.h5 and recovery.png."""
    sizes = tuple(sorted({n for n, *_ in RECOVERY[2]}))
    arrays, seconds = recovery_figure.empty(sizes), 0.0
    for i, p in enumerate(recovery_figure.ALPHA):
        for n, samples, seed, grid in RECOVERY[p]:
            path = folder / f"recovery_p{p}_n{n}_s{seed}.h5"
            given = {
                "p": p,
                "a": 0.5,
                "n": n,
                "samples": samples,
                "seed": seed,
                "alpha-grid": grid,
                "hessians": 2,
                "block": 8,
            }
            found = descended(path, RANDOM | given)
            seconds += found.attrs["seconds"]
            for k, alpha in enumerate(recovery_figure.ALPHA[p]):
                if alpha in found.alpha.values:
                    at = found.alpha.values.tolist().index(alpha)
                    ends = found.projection.values[0, 0, at, :, -1], found.code.values[0, 0, at]
                    recovery_figure.add(arrays, (i, sizes.index(n), k), *ends)
    gallery.save(folder / "recovery.h5", recovery_figure.recovery, arrays, gallery.Effort("paper"), seconds)
    data, _ = gallery.load(folder / "recovery.h5")
    with figure_style():
        picture = plot.render(recovery_figure.recovery.draw(data), "png", 200)
    (folder / "recovery.png").write_bytes(picture)
    return [line for i in range(len(data["p"])) for line in _recovery_lines(data, i)]


def _recovery_lines(data: gallery.Data, i: int) -> list[str]:
    lines = [
        f"p = {data['p'][i]}, a = 0.5, random starts: share that recovers, [95 %]; alpha_BBP {data['alpha_bbp'][i]:.4f}"
    ]
    value, error = recovery_figure.thresholds(data, i)
    for j, n in enumerate(data["n"]):
        alpha, shares = recovery_figure.share(data, i, j)
        cells = [
            f"{a:g}: {with_interval(s.value, s.low, s.high)}" for a, s in zip(alpha, shares, strict=True)
        ]
        moving = data["moving"][i, j].sum()
        lines.append(
            f"  N = {n}: half at {value[j]:.3f} ± {error[j]:.3f}, {moving} still moving;  " + "  ".join(cells)
        )
    for law in POWER:
        fit = fit_law(law, data["n"], value, error)
        lines.append(
            f"  in {law}: {fit.limit.value:.3f} ± {fit.limit.error:.3f} at N = infinity, chi2 {fit.chi2:.2f} ({fit.degrees})"
        )
    return lines


def width_claim(runs: dict[tuple[int, int], xr.Dataset], a: float) -> list[str]:
    """Midpoints of the recovered fraction for every p and N, and their distance from p = 1 in standard errors."""
    lines = [f"a = {a:g}: alpha at which half of the samples recover (final m2 > 0.5), random starts"]
    for (p, n), found in runs.items():
        middle, error, base, own = (
            float(recovery(run, n, "random")[name])
            for run in (found, runs[1, n])
            for name in ("midpoint", "midpoint_error")
        )
        gain = base - middle
        sigma = gain / np.hypot(own, error) if p > 1 else np.nan
        lines.append(
            f"  p = {p}, N = {n}: {middle:.3f} ± {error:.3f}"
            + (f"   lower than p = 1 by {gain:.3f} ({sigma:.1f} sigma)" if p > 1 else "")
        )
    return lines


def onset_claim(runs: dict[tuple[int, int], xr.Dataset], a: float) -> list[str]:
    """Excess of the final m2 over chance against alpha, at both N: weak recovery is an excess that does not fall as 1/N."""
    lines = [
        f"a = {a:g}: final m2 - chance on the grid {GRID}, mean ± error, and where it leaves chance for good"
    ]
    for (p, n), found in runs.items():
        seen = recovery(found, n, "random")
        base = chance(p, 1, n)
        final = zip(seen.final.values, seen.final_error.values, strict=True)
        cells = [f"{value - base:.3f}±{error:.3f}" for value, error in final]
        lines.append(f"  p = {p}, N = {n}: " + "  ".join(cells))
        lines.append(f"     onset {seen.onset.item():.3g}, alpha_BBP {found.alpha_bbp:.4g} ({found.kind})")
    return lines


def lost_claim(found: xr.Dataset) -> list[str]:
    """Largest q2 among the lowest eigenvectors at the start of the path and at its end, random starts."""
    lines = [
        f"p = {found.attrs['p']}, a = {found.attrs['a']:g}: largest q2 of the lowest eigenvectors (Riemannian), start -> end"
    ]
    for i, alpha in enumerate(found.alpha.values):
        q2 = found.overlaps.values[0, 0, i, :, :, 1].max(axis=-1)
        lost = found.m2.values[0, 0, i, :, -1] < 0.5
        ends = q2[lost][:, [0, -1]] if lost.any() else np.full((1, 2), np.nan)
        mean = ends.mean(axis=0)
        error = ends.std(axis=0, ddof=1) / np.sqrt(len(ends)) if len(ends) > 1 else np.full(2, np.nan)
        lines.append(
            f"  alpha = {alpha:.3g}: {mean[0]:.3f} ± {error[0]:.3f} -> {mean[1]:.3f} ± {error[1]:.3f}"
            f"   in the {lost.sum()} of {lost.size} samples that do not recover"
        )
    return lines


def main() -> int:
    """Run every case and print what it shows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="where files and pictures go")
    parser.add_argument("--quick", action="store_true", help="small and rough")
    parser.add_argument(
        "--recovery", action="store_true", help="recovery against N by gradient flow, and nothing else"
    )
    args = parser.parse_args()
    folder = Path(args.out)
    if args.recovery:
        print("\n".join(recovery_claim(folder)))
        return 0
    cases, samples = QUICK if args.quick else FULL, SAMPLES[args.quick]
    for a, sizes in cases.items():
        runs = {
            (p, n): descended(
                folder / f"descent_p{p}_a{a:g}_n{n}.h5",
                RANDOM | {"p": p, "a": a, "n": n, "samples": samples, "alpha-grid": GRID},
            )
            for p, n in sizes
        }
        print("\n".join([*width_claim(runs, a), *onset_claim(runs, a)]), flush=True)
        with figure_style():
            figure = descent_plots.recovery_figure({f"$p = {p}$ ({n})": run for (p, n), run in runs.items()})
        (folder / f"descent_recovery_a{a:g}.png").write_bytes(plot.render(figure, "png", 200))
    n = cases[0.5][0][1]
    along = {
        "p": 1,
        "a": 0.5,
        "n": n,
        "samples": samples,
        "alpha-grid": "1,2,3,4",
        "hessians": 10,
        "records": 24,
    }
    path = descended(folder / f"descent_p1_a0.5_n{n}_path.h5", along)
    print("\n".join(lost_claim(path)))
    with figure_style():
        (folder / "descent_path.png").write_bytes(plot.render(descent_plots.descent_figure(path), "png", 200))
    return 0


if __name__ == "__main__":
    sys.exit(main())
