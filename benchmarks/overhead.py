"""What storing and scheduling cost: a sweep at N = 400 against the bare calls of the sampler inside it.

One run measures both: the whole command, from its options to the file on disk, and within it each call of
`sims.sampling.sample_point`. What is left is the overhead: theory, shards, fsync, the file, the table. Claim: below 5 %.

    python benchmarks/overhead.py [--n 400] [--samples 16] [--rounds 2]
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


def run(words: list[str], out: Path) -> tuple[Clock, Clock]:
    """Run the sweep once: the clock of the whole command, and that of the sampler's calls in it."""
    whole, bare = Clock(), Clock()
    real = sampling.sample_point

    def timed(*args: Any, **options: Any) -> Any:
        with bare.running():
            return real(*args, **options)

    sampling.sample_point = timed
    try:
        with contextlib.redirect_stdout(io.StringIO()), whole.running():
            code = sweep.main([*words, "--out", str(out), "--quiet"])
    finally:
        sampling.sample_point = real
    if code != 0:
        raise SystemExit(f"the sweep ended with code {code}")
    return whole, bare


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in {"n": 400, "samples": 16, "rounds": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    words = ["--alpha-grid", "--n", str(args.n), "--samples", str(args.samples)]
    best = float("inf")
    with tempfile.TemporaryDirectory() as name:
        run([*words[:-1], "1"], Path(name, "compile.h5"))
        for turn in range(args.rounds):
            whole, bare = run(words, Path(name, f"{turn}.h5"))
            best = min(best, whole.wall / bare.wall - 1)
            print(
                f"sweep {whole.wall:.2f} s, sampler in it {bare.wall:.2f} s: overhead {whole.wall / bare.wall - 1:.1%};"
                f" processor {whole.cpu:.2f} s, {bare.cpu:.2f} s: {whole.cpu / bare.cpu - 1:.1%}"
            )
    print(f"N = {args.n}, 11 x {args.samples} samples: overhead {best:.1%} (claim: below {CLAIM:.0%})")
    return int(best >= CLAIM)


if __name__ == "__main__":
    sys.exit(main())
