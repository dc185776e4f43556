"""Where compiled programs are kept from one run to the next: our own folder for each kind of processor, in the user's cache."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from pathlib import Path

from bbp.console.messages import log

NONE = "none"  # in place of a directory: keep nothing
_FOLDER = "hessian-bbp"
# Our programs are many and small: JAX by itself keeps only those that took a second to compile.
_KEEPING = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    # Bytes: some thousand programs of about 20 kB, all of which JAX looks at whenever it writes one.
    "jax_compilation_cache_max_size": 20_000_000,
}


def directory(chosen: str | None) -> str | None:
    """The directory to keep compiled programs in, made if need be; None for none, or where JAX's own variable names one.

    chosen   a directory, NONE, or None: what BBP_CACHE names, else the user's cache directory

    In it a folder for this kind of processor is ours; whatever else is there is not. JAX reads and writes it under a lock and
    drops what was used longest ago: any number of processes may share it. One that cannot be written is a warning where it was
    asked for, and none where it was not.
    """
    import platformdirs  # late: --help needs none

    named = chosen or os.environ.get("BBP_CACHE")
    if named == NONE or (not named and "JAX_COMPILATION_CACHE_DIR" in os.environ):
        return None
    try:
        home = Path(named).expanduser() / _FOLDER if named else platformdirs.user_cache_path(_FOLDER)
        place = home / processor()
        place.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except (OSError, RuntimeError, ValueError) as error:
        (log.warning if named else log.debug)("compiled programs are not kept: %s", error)
        return None
    return str(place.absolute())


def environment(place: str | None) -> dict[str, str]:
    """The environment of a process that is to keep compiled programs in the directory `place`; empty for None."""
    if place is None:
        return {}
    return {name.upper(): str(value) for name, value in _KEEPING.items()} | {
        "JAX_COMPILATION_CACHE_DIR": place
    }


def keep_programs(place: str | None) -> None:
    """Let JAX keep compiled programs in the directory `place`, if this process has imported it; before the first is compiled,
    for JAX asks once."""
    jax = sys.modules.get("jax")
    if place is not None and jax is not None:
        for name, value in (_KEEPING | {"jax_compilation_cache_dir": place}).items():
            jax.config.update(name, value)


def processor() -> str:
    """Short name of this kind of processor, for which programs are compiled: model and instruction sets, where Linux tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    told = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    return hashlib.sha256("\n".join([platform.machine(), *told]).encode()).hexdigest()[:12]
