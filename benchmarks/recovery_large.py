"""How the overlap with the teacher grows along gradient flows at N = 10,000 and 30,000, by data drawn as they are asked for.

    python benchmarks/recovery_large.py --out DIR            what is missing of the figure's cases: an hour of a core and more
    python benchmarks/recovery_large.py --out DIR --collect  what is there into DIR/growth.h5, the data of `bbp figures growth`

Flows are followed until they recover (m^2 > 1/2), end, or reach the time of their case (`bbp.gallery.recovery.LARGE`). One
sample is one small file in DIR, kept as it ends; a run goes on where the last one stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
import time as clock
from pathlib import Path

import numpy as np

from bbp import gallery
from bbp.gallery import recovery


def path_of(folder: Path, case: recovery.Case, sample: int) -> Path:
    """The file of one sample."""
    name = f"p{case.p}_alpha{case.alpha:g}_n{case.n}_t{case.time:g}_m{case.overlap:g}_s{sample}.npz"
    return folder / name


def run(folder: Path) -> None:
    """What is missing: all cases from a small overlap, sample by sample, and then those from random students."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        (not case.overlap, case.n, sample, i)
        for i, case in enumerate(recovery.LARGE)
        for sample in range(case.samples)
    ]
    for _, _, sample, i in sorted(jobs):
        case = recovery.LARGE[i]
        path = path_of(folder, case, sample)
        if path.exists():
            continue
        before = clock.process_time()
        track = recovery.flow(case, sample)
        data, seconds, m2 = track.problem.data, clock.process_time() - before, recovery.m2(track)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(
                file, time=track.time, loss=track.loss, gradient=track.gradient, steps=track.steps,
                overlap_matrix=track.overlap_matrix, code=track.code, k=data.k, r=data.r, seconds=seconds,
            )  # fmt: skip
        os.replace(part, path)
        print(
            f"{path.stem}: time {track.time[-1]:.4g}, m2 {m2[0]:.2g} -> {m2[-1]:.3g}, |g| {track.gradient[-1]:.1e}, "
            f"directions {data.k} + {data.r}, {seconds:.0f} s of processor",
            flush=True,
        )


def collect(folder: Path) -> None:
    """DIR/growth.h5 of what is there, and a table."""
    found, seconds = {}, 0.0
    for case in recovery.LARGE:
        kept = [np.load(path) for s in range(case.samples) if (path := path_of(folder, case, s)).exists()]
        if not kept:
            continue
        seconds += sum(float(each["seconds"]) for each in kept)
        m2 = [np.max(np.sum(each["overlap_matrix"] ** 2, axis=-1), axis=-1) for each in kept]
        found[case] = [(each["time"], path) for each, path in zip(kept, m2, strict=True)]
        ends = ", ".join(f"{t[-1]:.0f}: {path[-1]:.3f}" for t, path in found[case])
        print(
            f"p = {case.p}, alpha = {case.alpha:g}, N = {case.n}, m_0 = {case.overlap:g}: time and m2 of the ends {ends}"
        )
    gallery.save(
        folder / "growth.h5", recovery.growth, recovery.arrays(found), gallery.Effort("paper"), seconds
    )


def main() -> int:
    """Run or collect."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--collect", action="store_true", help="what is there into DIR/growth.h5")
    args = parser.parse_args()
    (collect if args.collect else run)(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
