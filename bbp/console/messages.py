"""What a program says: errors, a plain line each; messages and progress while it works; what JAX finds to compute on, and
where it keeps what it has compiled."""

from __future__ import annotations

import hashlib
import logging
import os
import pkgutil
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

from tqdm import tqdm

from bbp.console import process
from theory.checks import ParameterError

SPARSE_SECONDS = 30.0
LONGEST = 600  # of a message
LONGEST_WORD = 200  # of one unbroken run in it: a value that someone gave
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

log = logging.getLogger("bbp")


class FileError(ParameterError):
    """A file or directory that cannot be used as asked: foreign, truncated, taken, read-only. Exit code 2."""


class RunError(RuntimeError):
    """A run that could not do its work: disk full, lost workers, a missing optional package. Exit code 1."""


def plain(text: object) -> str:
    r"""`text` with control characters spelled out (ESC as \x1b), lines and tabs kept: a file may hold what commands a terminal.

    >>> plain("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return _COMMANDS.sub(lambda found: ascii(found.group())[1:-1], str(text))


def one_line(text: object) -> str:
    """`text` in one plain line, long values in it and the whole shortened in their middle."""
    words = [_shortened(word, LONGEST_WORD) for word in str(text)[: 100 * LONGEST].split()]
    return plain(_shortened(" ".join(words), LONGEST))


def _shortened(text: str, most: int) -> str:
    kept = most // 2 - 2
    return text if len(text) <= most else f"{text[:kept]}...{text[-kept:]}"


def in_words(error: OSError) -> str:
    """An OSError in words: "No space left on device: 'results/x.h5'"."""
    name = f": {error.filename!r}" if error.filename else ""
    return f"{error.strerror or one_line(error)}{name}"


def duration(seconds: float) -> str:
    """A time in words, about as precise as an estimate is."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def messages(prog: str, *, quiet: bool = False, verbose: bool = False) -> Iterator[None]:
    """Send the logger "bbp" to stderr, each message after the program's name, for the length of the block."""
    handler = _Stderr()
    handler.setFormatter(logging.Formatter(f"{prog}: %(message)s"))
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]


class Progress:
    """A bar on a terminal and in a notebook; elsewhere a plain line at most every `SPARSE_SECONDS`; nothing when quiet.

    Use as a context manager; `advance(n, note)` after each piece of work, which also stops the work if a signal has come
    (`process.check`); `grow(n)` when more work appears.
    """

    def __init__(self, total: int, *, unit: str, done: int = 0):
        self.total, self.done, self.unit = total, done, unit
        self._start = self._last = time.monotonic()
        self._first = done
        self._shown = log.isEnabledFor(logging.INFO)
        self._bar = None
        if self._shown and (sys.stderr.isatty() or _in_a_notebook()):
            self._bar = tqdm(total=total, initial=done, unit=unit, file=STDERR, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        process.check()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def grow(self, n: int) -> None:
        """Expect `n` more pieces of work."""
        self.total += n
        if self._bar is not None:
            self._bar.total = self.total
            self._bar.refresh()

    def advance(self, n: int = 1, note: str = "") -> None:
        """`n` pieces are done and kept; raises Interrupted if a signal has come."""
        self.count(n, note)
        process.check()

    def count(self, n: int = 1, note: str = "") -> None:
        """`n` pieces are done; more of them may be there already, so that a signal has to wait."""
        self.done += n
        if self._bar is not None:
            self._bar.set_postfix_str(plain(note), refresh=False)
            self._bar.update(n)
        elif self._shown and time.monotonic() - self._last >= SPARSE_SECONDS:
            self._last = time.monotonic()
            rate = (self._last - self._start) / max(self.done - self._first, 1)
            left = duration(rate * (self.total - self.done))
            more = f", {note}" if note else ""
            log.info(f"{self.done}/{self.total} {self.unit}, about {left} left{more}")


def _in_a_notebook() -> bool:
    """Whether this is a kernel of Jupyter's, whose stderr is no terminal but shows a bar as one does."""
    kernel = sys.modules.get("ipykernel.zmqshell")
    return kernel is not None and kernel.ZMQInteractiveShell.initialized()


class Forgiving:
    """sys.stderr, whatever that is now, for messages that must not end the work because their reader has gone."""

    def write(self, text: str) -> int:
        """Write `text`; where that fails, stderr is nowhere from then on."""
        try:
            sys.stderr.write(text)
        except (OSError, ValueError):
            process.abandon("stderr")
        return len(text)

    def flush(self) -> None:
        """Flush, or give up on stderr as `write` does."""
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            process.abandon("stderr")

    def __getattr__(self, name: str) -> object:
        return getattr(sys.stderr, name)


STDERR = Forgiving()  # one, by which tqdm knows that bar and messages share a stream


class _Stderr(logging.StreamHandler):
    """Writes to whatever sys.stderr is now, through tqdm so that a bar is not torn."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(plain(self.format(record)), file=STDERR)


_LOOKS = "jax._src.xla_bridge"  # JAX's module that looks for devices, and its logger
_CUDA = {"cuda", "gpu"}
_GPU = re.compile(r"[0-9]+|(GPU|MIG)-[0-9a-fA-F/-]+")


class _Plugin(logging.Filter):
    """JAX tells of a plugin that does not start by a traceback, and goes on without: a line instead, or none in a process of
    a run, whose parent has told it."""

    tell = True

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.exc_info or "plugin" not in record.getMessage():
            return True
        if self.tell and (not _asked() or _asked() - _CUDA):  # else an error follows, with the same words
            log.warning("no GPU is used: %s", _why(one_line(record.exc_info[1])))
        return False


_PLUGIN = _Plugin()


def heed_jax(*, tell: bool = True) -> None:
    """From here on a plugin of JAX that does not start is told of in a line of the logger "bbp", or not at all."""
    _PLUGIN.tell = tell
    logging.getLogger(_LOOKS).addFilter(_PLUGIN)  # once: a filter is added only where it is not


def driver() -> bool:
    """Whether a driver of NVIDIA is loaded here, or passed into this container."""
    return any(Path(place).exists() for place in ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg"))


def gpus() -> list[str]:
    """Names (for CUDA_VISIBLE_DEVICES) of the GPUs this process may use, found without touching them: JAX would claim one.

    CUDA counts the names of that variable up to the first that is none ("NoDevFiles", "-1", nothing), and where there is
    no driver there is no GPU, whatever it says.
    """
    if os.environ.get("JAX_PLATFORMS", "").startswith("cpu") or not driver():
        return []
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        names = [name.strip() for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
        return list(takewhile(_GPU.fullmatch, names))
    return [str(index) for index, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]


def no_device(error: BaseException) -> str | None:
    """In words that JAX found no device to compute on, or too little memory on it, if that is what `error` says; else None."""
    if "RESOURCE_EXHAUSTED" in str(error):
        from sims.machine import exhausted  # imported only then: it takes a second

        return exhausted(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") != _LOOKS:
        trace = trace.tb_next
    if trace is None:
        return None
    asked = os.environ.get("JAX_PLATFORMS", "")
    where = f" (JAX_PLATFORMS={asked})" if asked else ""
    why = _why("") if _asked() & _CUDA else ""
    return f"JAX finds no device to compute on{where}; {why or error}"


def _asked() -> set[str]:
    """Platforms that the environment asks for."""
    return {name.strip() for name in os.environ.get("JAX_PLATFORMS", "").split(",")} - {""}


def _why(said: str) -> str:
    """Why there is no GPU: what is missing here, or else what JAX said."""
    if not _has_plugin():
        return "JAX has no plugin for CUDA (pip install 'hessian-bbp[gpu]')"
    if not driver():
        return "no driver of NVIDIA is loaded here (JAX_PLATFORMS=cpu asks for none)"
    return said


def _has_plugin() -> bool:
    spec = find_spec("jax_plugins")
    places = spec.submodule_search_locations if spec else None
    return any("cuda" in module.name for module in pkgutil.iter_modules(places or []))


NO_CACHE = "none"  # in place of a directory: keep nothing
_FOLDER = "hessian-bbp"  # in the user's cache: our own, and in it one for each kind of processor
# Our programs are many and small: JAX by itself keeps only those that took a second to compile.
_KEEPING = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    # Bytes: some thousand programs of about 20 kB, all of which JAX looks at whenever it writes one.
    "jax_compilation_cache_max_size": 20_000_000,
}


def cache_directory(chosen: str | None) -> str | None:
    """The directory to keep compiled programs in, made if need be; None for none, or where JAX's own variable names one.

    chosen   a directory, NO_CACHE, or None: what BBP_CACHE names, else the user's cache directory

    In it a folder for this kind of processor is ours; whatever else is there is not. JAX reads and writes it under a lock and
    drops what was used longest ago: any number of processes may share it. One that cannot be written is a warning where it was
    asked for, and none where it was not.
    """
    import platformdirs  # late: --help needs none

    named = chosen or os.environ.get("BBP_CACHE")
    if named == NO_CACHE or (not named and "JAX_COMPILATION_CACHE_DIR" in os.environ):
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


def keeping_environment(place: str | None) -> dict[str, str]:
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
