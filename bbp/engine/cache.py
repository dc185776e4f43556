"""Where compiled programs are kept from one run to the next, and that what is kept there is sound and bounded.

They lie in a folder of our own, inside what the user names: whatever else is there is not ours. JAX reads and writes it
under a lock and drops what was used longest ago: any number of processes may share it. For that it looks at every program
kept whenever it writes one (64 ms with 2,000 of them, 20 with 512): so their number is bounded too, at the start of a run.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from bbp.console.messages import log

NONE = "none"  # in place of a directory: keep nothing
VARIABLE = "BBP_CACHE"
FOLDER = "hessian-bbp"
# Our programs are many and small: JAX by itself keeps only those that took a second to compile.
SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    "jax_compilation_cache_max_size": 300_000_000,  # bytes
}
LOCK_SECONDS = 1.0
MOST, LEFT = (
    512,
    384,
)  # programs that may be there when a run starts (four or five for each N); how many stay if not
HEADS = b"\x78", b"\x28\xb5\x2f\xfd"  # first bytes of what JAX writes: zlib, zstandard
PROGRAM, USED = "-cache", "-atime"  # ends of the names of JAX's files: a program, the time of its last use


def directory(chosen: str | None) -> str | None:
    """The directory to keep compiled programs in, made if need be; None for none, or where JAX's own variable names one.

    chosen   a directory, NONE, or None: what BBP_CACHE names, else the user's cache directory

    In it a folder for this kind of processor is ours. One that cannot be written is a warning where it was asked for, and none
    where it was not.
    """
    named = chosen or os.environ.get(VARIABLE)
    if named == NONE or (not named and "JAX_COMPILATION_CACHE_DIR" in os.environ):
        return None
    try:
        home = Path(named).expanduser() / FOLDER if named else platformdirs.user_cache_path(FOLDER)
        place = home / processor()
        place.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except (OSError, RuntimeError, ValueError) as error:
        (log.warning if named else log.debug)("compiled programs are not kept: %s", error)
        return None
    tidy(place)
    return str(place.absolute())


def environment(place: str | None) -> dict[str, str]:
    """The environment of a process that is to keep compiled programs in the directory `place`; empty for None."""
    if place is None:
        return {}
    return {name.upper(): str(value) for name, value in SETTINGS.items()} | {
        "JAX_COMPILATION_CACHE_DIR": place
    }


def tidy(place: Path) -> None:
    """Remove what is damaged or half written, and of more than MOST programs those used longest ago.

    JAX writes the time of last use after the program: one without it is not whole. One that it cannot read (emptied by a
    crash of the machine, say) it would warn of at every run and compile again, but never replace.
    """
    try:
        with FileLock(place / ".lockfile", timeout=LOCK_SECONDS), os.scandir(place) as found:
            files = {
                entry.name: entry.stat().st_mtime for entry in found if entry.is_file(follow_symlinks=False)
            }
            programs = [name.removesuffix(PROGRAM) for name in files if name.endswith(PROGRAM)]
            whole = [
                name for name in programs if name + USED in files and _readable(place / (name + PROGRAM))
            ]
            whole.sort(key=lambda name: files[name + USED])
            kept = set(whole[-LEFT:] if len(whole) > MOST else whole)
            for name in set(programs) - kept:
                for end in (PROGRAM, USED):
                    (place / (name + end)).unlink(missing_ok=True)
    except (OSError, Timeout):  # somebody else is at it, or may do what we may not
        return


def _readable(program: Path) -> bool:
    """Whether a file begins as compressed programs do."""
    with program.open("rb") as file:
        return file.read(4).startswith(HEADS)


def processor() -> str:
    """Short name of this kind of processor, for which programs are compiled: model and instruction sets, where Linux tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    told = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    return hashlib.sha256("\n".join([platform.machine(), *told]).encode()).hexdigest()[:12]
