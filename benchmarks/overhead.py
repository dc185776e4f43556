"""What storing and scheduling cost: a sweep at N = 400 against the bare calls of the sampler for the same samples.

Both run in this process, in turns, and the smallest time of each counts. Claim: below 5 %.

    python benchmarks/overhead.py [--n 400] [--samples 16] [--alphas 4] [--rounds 3]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import time
from pathlib import Path

from bbp import adaptive, config, sweep
from bbp.units import Results
from sims import sampling

CLAIM = 0.05


def bare(words: list[str]) -> float:
    """Seconds of the sampler's calls alone, cut into the same blocks."""
    options = dict(zip((word[2:].replace("-", "_") for word in words[::2]), words[1::2], strict=True))
    wanted = config.build(options)
    units = adaptive.pending(wanted, Results(), adaptive.Division())
    start = time.perf_counter()
    for unit in units:
        sampling.sample_point(
            unit.model,
            unit.point.n,
            unit.point.alpha,
            list(unit.samples),
            unit.seed,
            eigenpairs=unit.eigenpairs,
        )
    return time.perf_counter() - start


def whole(words: list[str], directory: Path) -> float:
    """Seconds of the same as a command, from the options to the file."""
    out = directory / f"{time.monotonic_ns()}.h5"
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        code = sweep.main([*words, "--out", str(out), "--quiet"])
    seconds = time.perf_counter() - start
    if code != 0 or not out.exists():
        raise SystemExit(f"the sweep ended with code {code}")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in {"n": 400, "samples": 16, "alphas": 4, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    words = ["--alpha-grid", f"0.8:1.6:{args.alphas}", "--n", str(args.n), "--samples", str(args.samples)]
    with tempfile.TemporaryDirectory() as name:
        whole(words, Path(name))  # compiles
        pairs = [(bare(words), whole(words, Path(name))) for _ in range(args.rounds)]
    alone, stored = (min(times) for times in zip(*pairs, strict=True))
    overhead = stored / alone - 1
    for one, two in pairs:
        print(f"bare {one:7.2f} s   sweep {two:7.2f} s   ratio {two / one:.3f}")
    print(
        f"N = {args.n}, {args.alphas} x {args.samples} samples: overhead {100 * overhead:.1f} % (claim: < {100 * CLAIM:g} %)"
    )
    return int(overhead > CLAIM)


if __name__ == "__main__":
    sys.exit(main())
