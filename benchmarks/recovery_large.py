"""How the overlap with the teacher grows along gradient flows at N = 10,000, by data drawn as they are asked for.

    python benchmarks/recovery_large.py --out DIR              what is missing of the cases below: half an hour of a core
    python benchmarks/recovery_large.py --out DIR --collect F  what is there into F.h5 (data of a figure), and a table

Cases from random starts are followed until the flow recovers (m^2 > 1/2), ends, or reaches the time stated. Cases from a small
overlap m_0 show its growth m(t) / m_0, which at small m_0 and large N is a number of the model: at N = infinity a flow from a
random start recovers where it grows without bound. One sample is one small file in DIR; a run goes on where the last stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
import time as clock
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sims.dynamics.run import Track, descend
from theory.model import Network

A, DIRECTIONS, STEPS = 0.5, 4000, 4000


class Case(NamedTuple):
    """One case: N, the time to which flows are followed, the overlap at the start (0: random), and how many samples."""

    p: int
    alpha: float
    n: int
    time: float
    overlap: float
    samples: int

    @property
    def name(self) -> str:
        """Of its files."""
        return f"p{self.p}_alpha{self.alpha:g}_n{self.n}_t{self.time:g}_m{self.overlap:g}"


GROWTH = [Case(1, alpha, 10_000, 50.0, 0.05, 8) for alpha in (3.0, 4.0, 2.0, 5.0, 2.5, 3.5)]
GROWTH += [Case(2, alpha, 10_000, 50.0, 0.05, 8) for alpha in (2.0, 1.2, 1.6, 2.4)]
RANDOM = [Case(1, alpha, 10_000, 250.0, 0.0, 16) for alpha in (3.5, 3.0, 4.0)]
RANDOM += [Case(2, alpha, 10_000, 250.0, 0.0, 16) for alpha in (2.0, 1.8)]


def m2(overlap_matrix: np.ndarray) -> np.ndarray:
    """Largest share of a student row in the teacher's span."""
    return np.max(np.sum(overlap_matrix**2, axis=-1), axis=-1)


def followed(case: Case, sample: int) -> Track:
    """One flow."""
    teacher: list[np.ndarray] = []

    def start(student: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Rows at the overlap exactly, where one is asked for: else what is drawn."""
        teacher.append(rows)
        if not case.overlap:
            return student
        apart = student - (student @ rows.T / case.n) @ rows
        apart *= np.sqrt(case.n) / np.linalg.norm(apart, axis=1, keepdims=True)
        return case.overlap * rows + np.sqrt(1 - case.overlap**2) * apart

    def recovered(state) -> bool:
        return bool(m2(np.asarray(state.student, float) @ teacher[0].T / case.n) > 0.5)

    return descend(
        Network(p=case.p, a=A), case.n, case.alpha, data="deferred", sample=sample, steps=STEPS, time=case.time,
        records=400, directions=DIRECTIONS, start=start, until=recovered,
    )  # fmt: skip


def run(folder: Path, cases: list[Case]) -> None:
    """What is missing, sample by sample over all cases."""
    folder.mkdir(parents=True, exist_ok=True)
    for sample in range(max(case.samples for case in cases)):
        for case in cases:
            path = folder / f"{case.name}_s{sample}.npz"
            if sample >= case.samples or path.exists():
                continue
            before = clock.process_time()
            track = followed(case, sample)
            data, seconds = track.problem.data, clock.process_time() - before
            part = path.with_suffix(".part")
            with part.open("wb") as file:
                np.savez(
                    file, time=track.time, loss=track.loss, gradient=track.gradient, steps=track.steps,
                    overlap_matrix=track.overlap_matrix, code=track.code, k=data.k, r=data.r, seconds=seconds,
                )  # fmt: skip
            os.replace(part, path)
            found = m2(track.overlap_matrix)
            print(
                f"{case.name} sample {sample}: time {track.time[-1]:.4g}, m2 {found[0]:.2g} -> {found[-1]:.3g}, "
                f"|g| {track.gradient[-1]:.1e}, directions {data.k} + {data.r}, {seconds:.0f} s of processor",
                flush=True,
            )


def main() -> int:
    """Run or collect."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    args = parser.parse_args()
    run(args.out, GROWTH)
    run(args.out, RANDOM)
    return 0


if __name__ == "__main__":
    sys.exit(main())
