"""What storing and scheduling cost: a sweep at N = 400 against the bare calls of the sampler inside it.

One run measures both: the whole command, from its options to the file on disk, and within it each call of
`sims.sampling.sample_point`, and of the theory at finite N that the file holds beside the samples. What is left is the
overhead: units, parts, fsync, theory at N = infinity, the file, the table. Claim: below 5 % of the samples' time.

    python benchmarks/overhead.py [--n 400] [--samples 16] [--rounds 3]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bbp import sweep
from bbp.experiments import sweep as assembled
from sims import sampling

CLAIM = 0.05


class Clock:
    """Seconds of wall and of processor that passed inside its `running` blocks."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu


def run(words: list[str], out: Path) -> dict[str, Clock]:
    """Run the sweep once: clocks of the whole command, and of the samples and the finite-N theory in it."""
    clocks = {name: Clock() for name in ("whole", "samples", "theory")}
    places = {"samples": (sampling, "sample_point"), "theory": (assembled, "finite_theory")}
    with contextlib.ExitStack() as held:
        for name, (module, function) in places.items():
            held.enter_context(clocked(module, function, clocks[name]))
        held.enter_context(contextlib.redirect_stdout(io.StringIO()))
        held.enter_context(clocks["whole"].running())
        code = sweep.main([*words, "--out", str(out), "--quiet"])
    if code != 0:
        raise SystemExit(f"the sweep ended with code {code}")
    return clocks


@contextlib.contextmanager
def clocked(module: Any, function: str, clock: Clock) -> Iterator[None]:
    """In this block, calls of a module's function run on the clock."""
    real = getattr(module, function)

    def timed(*args: Any, **options: Any) -> Any:
        with clock.running():
            return real(*args, **options)

    setattr(module, function, timed)
    try:
        yield
    finally:
        setattr(module, function, real)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in {"n": 400, "samples": 16, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    # In this process: the samples of others pass no clock here.
    words = ["--alpha-grid", "--processes", "1", "--n", str(args.n), "--samples", str(args.samples)]
    best = float("inf")
    with tempfile.TemporaryDirectory() as name:
        run([*words[:-1], "1"], Path(name, "compile.h5"))
        for turn in range(args.rounds):
            found = run(words, Path(name, f"{turn}.h5"))
            whole, bare, theory = (found[part] for part in ("whole", "samples", "theory"))
            share = (whole.wall - theory.wall) / bare.wall - 1
            best = min(best, share)
            print(
                f"sweep {whole.wall:.2f} s, samples in it {bare.wall:.2f} s, finite-N theory {theory.wall:.2f} s:"
                f" overhead {share:.1%}; processor {whole.cpu:.2f}, {bare.cpu:.2f}, {theory.cpu:.2f} s:"
                f" {(whole.cpu - theory.cpu) / bare.cpu - 1:.1%}"
            )
    print(f"N = {args.n}, 11 x {args.samples} samples: overhead {best:.1%} (claim: below {CLAIM:.0%})")
    return int(best >= CLAIM)


if __name__ == "__main__":
    sys.exit(main())
