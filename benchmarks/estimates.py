"""What a dry run expects of a sample against what the sample then takes, in processor time, at sizes fitted to nothing.

The estimate is the program's: small samples of the same model and alpha, timed, and scaled by `bbp.experiments.samples`. Both
are taken in processor seconds, which other programs on the machine disturb less than wall time. Claim: run over estimate lies
within [0.5, 2].

    python -m benchmarks.estimates [--cases 150:3:1.5:dense,3000:1:1.5:krylov] [--samples 2]
"""

from __future__ import annotations

import argparse
import sys
import time

from bbp.engine.run import Results, Unit, run_unit
from bbp.experiments.program import MOST_PROBES, PROBE_SECONDS
from bbp.sweep import PROGRAM

DENSE = "70:1:0.6:dense,150:3:1.5:dense,300:2:0.7:dense,600:1:2:dense,700:2:1:dense,1500:1:1:dense"
KRYLOV = "3500:1:1:krylov,1500:2:1.2:krylov,1000:4:0.7:krylov,4000:2:0.8:krylov"
REPEAT = 4  # one more repetition than the program


def seconds(unit: Unit) -> float:
    """Processor seconds of a unit; a failed sample ends the program."""
    start = time.process_time()
    result = run_unit(unit)
    if "".join(result.reason):
        raise SystemExit(f"a sample failed: {result.reason}")
    return time.process_time() - start


def ratio(case: str, samples: int) -> float:
    """Print one case and return run over estimate."""
    n, p, alpha, solver = case.split(":")
    options = {"n": n, "p": p, "alpha_grid": alpha, "samples": 10**6, "solver": solver}
    experiment = PROGRAM.experiment(options)
    point = next(iter(experiment.points(Results())))
    cost = experiment.cost(point, {})
    small = cost.probe
    work = experiment.cost(small, {}).work
    number = max(1, min(MOST_PROBES, int(PROBE_SECONDS / work)))
    probe = min(seconds(experiment.unit(small, 0, number)) for _ in range(REPEAT)) / number
    expected = probe / work * cost.work
    seconds(experiment.unit(point, 0, 1))  # compiles
    samples = max(samples, min(4 * number, int(1 / expected)))  # small ones share calls, as those of a run do
    taken = seconds(experiment.unit(point, 1, samples)) / samples
    print(
        f"N = {n}, p = {p}, alpha = {alpha}, {solver}: probe at N = {small[1]} {probe:.4f} s, expected {expected:.4f} s,"
        f" taken {taken:.4f} s a sample, run / estimate {taken / expected:.2f}",
        flush=True,
    )
    return taken / expected


def main() -> int:
    """A line for each case; 1 where a ratio is outside the claim."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default=f"{DENSE},{KRYLOV}", help="N:p:alpha:solver, ...")
    parser.add_argument("--samples", type=int, default=1)
    options = parser.parse_args()
    found = [ratio(case, options.samples) for case in options.cases.split(",")]
    print(f"run / estimate from {min(found):.2f} to {max(found):.2f} (claim: 0.5 to 2)")
    return int(min(found) < 0.5 or max(found) > 2)


if __name__ == "__main__":
    sys.exit(main())
