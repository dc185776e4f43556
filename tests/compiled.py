"""How the tests compile with JAX, and where they keep what they have compiled. No test here.

Most of the suite's time was compilation: thousands of small programs, each run once or twice. So all processes of the tests,
children included, compile without LLVM's optimisation and without XLA's fusion emitters: a third of the time. Drawing is
twice as slow then, products with matrices and LAPACK are not; numbers differ by rounding. `XLA_FLAGS= python3 run.py test`
compiles as users do; `.ci/run` does so for the tests in which rounding matters most.

`use` must run before JAX is imported. The directory lies in pytest's own cache (`pytest --cache-clear` empties it) and is named
after the processor, as compiled programs are for one processor only. JAX bounds its size, dropping what was used longest ago.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

QUICK = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1"  # one thread compiles a program: most are tiny
)
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "d"
SETTINGS = {
    "JAX_COMPILATION_CACHE_MAX_SIZE": "400000000",  # bytes; with a bound JAX also locks the directory
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def use() -> None:
    """Compile quickly, unless the caller has set XLA_FLAGS; name the directory, unless the caller has named one."""
    os.environ.setdefault("XLA_FLAGS", QUICK)
    # Many tests start processes, and pytest rewrites all of them: what Python compiles is kept, whatever the environment says.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", "")
    sys.dont_write_bytecode = False
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    # Only here: it brings NumPy, whose BLAS reads the environment when it is loaded.
    from bbp.console.messages import processor

    directory = CACHE / f"compiled-{processor()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    os.environ.update(SETTINGS, JAX_COMPILATION_CACHE_DIR=str(directory))


def tidy() -> None:
    """Remove what a process left half written when it was killed: JAX writes the time of last use after the program."""
    for program in CACHE.glob("compiled-*/*-cache"):
        if not program.with_name(program.name.removesuffix("-cache") + "-atime").exists():
            program.unlink(missing_ok=True)
