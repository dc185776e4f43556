"""Signals at random moments of every program: the exit code is the signal's, one line is said, and what was kept is kept.

Run: python benchmarks/signals.py [SHOTS] [--processes]. Prints a line for each program; exits with 1 if a shot went wrong.
A process that has finished before its signal must have exit code 0 instead.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = {
    "sweep, dense": [
        "bbp.sweep",
        "--alpha-grid",
        "0.8:2:6",
        "--n",
        "24,48",
        "--samples",
        "40",
        "--block",
        "1",
    ],
    "sweep, Krylov": [
        *["bbp.sweep", "--alpha-grid", "0.8:2:3", "--n", "300", "--samples", "4", "--block", "1"],
        *["--solver", "krylov"],
    ],
    "descent": ["bbp.descent", "--n", "30", "--samples", "4", "--steps", "100", "--alpha-grid", "1:4:12"],
    "figures": ["bbp.figures", "phi", "thresholds", "--samples", "4", "--n", "40"],
    "compare": ["bbp.compare", "SWEEP", "--draws", "200"],
}
SEVERAL = {
    "sweep, two processes": [*PROGRAMS["sweep, dense"], "--workers", "2"],
}
BAD = ("Traceback", "unforeseen", "Segmentation", "Exception ignored", "resource_tracker", "Error in sys")


def shot(
    words: list[str], directory: Path, after: float, number: int, environment: dict[str, str] | None = None
) -> tuple[int, str]:
    """Exit code and stderr of `python -m WORDS` in `directory`, sent `number` `after` seconds from its first statement."""
    child = subprocess.Popen(
        # A shell's background job ignores SIGINT, and its children inherit that.
        [sys.executable, "-c", _HEED, *words],
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])} | (environment or {}),
    )
    try:
        _wait_for_first_statement(child)
        child.wait(after)
    except subprocess.TimeoutExpired:
        child.send_signal(number)
    _, said = child.communicate(timeout=60)
    return child.returncode, said


_HEED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])
"""


def _wait_for_first_statement(child: subprocess.Popen[str]) -> None:
    """Until the process answers SIGTERM: before, in its first 20 ms, Python itself starts, and SIGTERM is the system's."""
    while child.poll() is None:
        lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
        if caught >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.001)


def wrong(code: int, said: str, number: int) -> str:
    """What is wrong with the end of a process that was sent `number`; empty if nothing."""
    if code not in (0, 128 + number):
        return f"exit code {code}"
    if any(word in said for word in BAD):
        return f"said {said!r}"
    if code and not any(word in said for word in ("interrupted", "terminated", "hung up")):
        return f"said nothing of it: {said!r}"
    return ""


def main() -> int:
    """Fire, and report."""
    shots = int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 100
    programs = PROGRAMS | (SEVERAL if "--processes" in sys.argv else {})
    rng, failed = random.Random(8), 0
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        few = [*PROGRAMS["sweep, dense"], "--samples", "6", "--quiet", "--out", "sweep.h5"]
        subprocess.run([sys.executable, "-m", *few], cwd=directory, check=True, stdout=subprocess.DEVNULL)
        for name, words in programs.items():
            words = [word.replace("SWEEP", "sweep.h5") for word in words]
            words += [] if name == "compare" else ["--out", f"results/{name.replace(', ', '-')}.h5"]
            if words[0] in ("bbp.sweep", "bbp.descent"):
                words.append("--resume")
            codes, bad, slowest = [], [], 0.0
            for _ in range(-(-shots // len(programs))):
                number = rng.choice([signal.SIGINT, signal.SIGTERM])
                after = rng.uniform(0.0, 6.0)
                start = time.monotonic()
                code, said = shot(words, directory, after, number)
                slowest = max(slowest, time.monotonic() - start - after)
                codes.append(code)
                bad += filter(None, [wrong(code, said, number)])
            failed += len(bad)
            counts = ", ".join(f"{codes.count(code)} with {code}" for code in sorted(set(codes)))
            print(
                f"{name:15} {counts}; {len(bad)} wrong; slowest end {slowest:.1f} s",
                *bad[:3],
                sep="\n  ",
                flush=True,
            )
        left = [str(path.relative_to(directory)) for path in directory.rglob("*") if _left(path)]
        print("left behind:", left or "nothing")
    return 1 if failed or left else 0


def _left(path: Path) -> bool:
    return path.name.endswith((".lock", ".tmp"))


if __name__ == "__main__":
    sys.exit(main())
