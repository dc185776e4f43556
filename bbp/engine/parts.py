"""The parts of an unfinished run on disk: a plan, which says of what run they are, and a file for each finished unit."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from bbp.console.messages import FileError, log
from bbp.files import disk

if TYPE_CHECKING:
    from bbp.engine.run import Result
    from bbp.experiments.base import Experiment

PLAN, FORMAT, VERSION = "plan.json", "bbp-parts", 2
LOCK, OWNER = "run.lock", "run.owner"  # of a run; of a task "3-of-10.lock"
LARGEST = 2**30  # bytes of a part, and of a plan
MOMENT = 0.5  # seconds for which a lock may be held by others who only look
_OURS = re.compile(r"[\w-]+-s\d{7,}-\d+\.(npz|damaged)|plan\.json|\.bbp-.*\.tmp")
_LOCKS = re.compile(r"run\.owner|(run|plan)\.lock|\d+-of-\d+\.lock")


class Parts:
    """The parts of the unfinished run whose file is to be `out`: one file for each finished unit, in FILE.h5.parts beside it.

    A part is a zip of arrays (npz, no pickles) with a seal behind it (bbp.files.disk), landed by temporary file, fsync and
    rename. It states what it holds (experiment, point, samples and all that decides its numbers), and that is checked, with
    the type and shape of every column, when it is read: parts of any block size, in any order, from any number of processes
    make up one run, and none counts for another point or another run. A damaged one is set aside and computed again.
    """

    ENDING = ".parts"

    def __init__(self, out: Path):
        self.out, self.path = out, out.with_name(out.name + self.ENDING)
        self.plan = self.path / PLAN

    def exist(self) -> bool:
        """Whether an unfinished run has left its plan here."""
        return self.plan.exists()

    def begin(self, experiment: Experiment) -> None:
        """Create the directory with its plan, or check that the plan already there agrees; FileError if not.

        Several tasks may begin at once: the first plan stays, the others compare themselves with it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        # Looked for before the plan: a task that begins beside this one writes its plan first and its parts after.
        found = any(self.path.glob("*.npz"))
        wanted = experiment.records
        if not self.exist():
            if found:
                raise FileError(
                    f"{str(self.path)!r} holds parts but no {PLAN}: of which run? (--force discards them)"
                )
            plan = {"format": FORMAT, "version": VERSION, "experiment": experiment.name, "records": wanted}
            with FileLock(self.path / "plan.lock"):
                # Looked for again under the lock: of tasks that begin at once the first writes the plan.
                if not self.exist():
                    disk.write_bytes(self.plan, json.dumps(plan, indent=1).encode())
        there = self.read_plan()
        apart = differences(there["records"], wanted, experiment.defaults)
        if there["experiment"] != experiment.name:
            apart = f"a {there['experiment']} there, a {experiment.name} here"
        if apart:
            raise FileError(f"{str(self.path)!r} holds parts of another run: {apart} (--force discards them)")

    def read_plan(self) -> dict[str, Any]:
        """The plan, {"experiment": name, "records": [...]}; FileError if it cannot be read or is of another version."""
        try:
            plan = json.loads(disk.read_bytes(self.plan, LARGEST))
        except (FileError, ValueError, RecursionError) as error:
            raise FileError(
                f"{str(self.plan)!r} cannot be read: {error} (--force discards the parts)"
            ) from None
        plan = plan if isinstance(plan, dict) else {}
        if "format" not in plan:
            raise FileError(f"{str(self.plan)!r} is no plan of a run (--force discards the parts)")
        sound = isinstance(plan.get("records"), list) and isinstance(plan.get("experiment"), str)
        if (plan["format"], plan.get("version")) != (FORMAT, VERSION) or not sound:
            raise FileError(f"{str(self.plan)!r} is of another version of bbp (--force discards the parts)")
        return plan

    def save(self, result: Result, experiment: Experiment) -> None:
        """Add one part, atomically. OSError leaves the other parts as they are."""
        about = {name: value for name, value in vars(result).items() if name != "columns"}
        about |= {"experiment": experiment.name, "given": experiment.record_of(result.point)}
        buffer = io.BytesIO()
        columns = {  # objects would need pickles
            name: values.astype(str) if values.dtype.kind == "O" else values
            for name, values in result.columns.items()
        }
        np.savez(buffer, about=np.array(json.dumps(about)), **columns)  # type: ignore[arg-type]
        name = _part_name(result.point, result.first, result.count)
        disk.write_bytes(self.path / name, disk.sealed(buffer.getvalue()))

    def load(
        self, experiment: Experiment | None = None, *, set_aside: bool = False
    ) -> Iterator[dict[str, Any]]:
        """The fields of the `Result` in every sound part of the experiment, in order of name; without one, of whatever run.

        A damaged part, or one that is no regular file, does not count, and a warning says so; `set_aside` renames
        the damaged *.damaged.
        """
        for path in sorted(self.path.glob("*.npz")):
            try:
                data = disk.read_bytes(path, LARGEST)
            except FileError as error:
                log.warning("part %s does not count: %s", path.name, error)
                continue
            try:
                yield _read(path.name, data, experiment)
            except Exception as error:  # whatever foreign bytes make of the readers of zip, npy and JSON
                log.warning("part %s is damaged (%s): it does not count", path.name, error)
                if set_aside:
                    path.replace(path.with_suffix(".damaged"))

    def tidy(self) -> None:
        """Remove what killed writers left half written. Only while no other process writes here."""
        for left in self.path.glob(".bbp-*.tmp"):
            left.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the plan, then the parts; what is not ours stays, and so do locks until their holder leaves."""
        with suppress(FileNotFoundError):
            # The plan goes first: parts that a process killed here leaves are refused, and not taken for those of a run.
            for path in sorted(self.path.iterdir(), key=lambda path: path.name != PLAN):
                if _OURS.fullmatch(path.name) and not path.is_dir():
                    path.unlink(missing_ok=True)

    @contextmanager
    def held(self, task: tuple[int, int] | None = None) -> Iterator[None]:
        """The whole output for one run; for a task its own number, beside other tasks. FileError if another has it.

        Locks lie among the parts. A task holds its own and looks whether the run's is free; a run holds its own and looks
        whether those of tasks are: of two at once at least one sees the other.
        """
        whole = self.path / LOCK
        mine, what = whole, str(self.out)
        if task:
            number = f"{task[0]}-of-{task[1]}"
            mine, what = self.path / f"{number}.lock", f"task {number} of {self.out}"
        with _lock(mine, what):
            for other in [whole] if task else self.path.glob("*-of-*.lock"):
                with _lock(other, str(self.out)):
                    pass
            if not task:
                since = time.strftime("%Y-%m-%d %H:%M:%S")
                (self.path / OWNER).write_text(
                    f"process {os.getpid()} on {socket.gethostname()} since {since}"
                )
            try:
                yield
            finally:
                self._leave()

    def _leave(self) -> None:
        """Remove locks and directory where nothing of the run is kept in it; files of others stay."""
        with suppress(OSError):
            held = list(self.path.iterdir())
            if not any(_OURS.fullmatch(path.name) for path in held):
                for path in held:
                    if _LOCKS.fullmatch(path.name):
                        path.unlink(missing_ok=True)
                self.path.rmdir()


@contextmanager
def _lock(path: Path, what: str) -> Iterator[None]:
    if os.path.lexists(path.parent) and not path.parent.is_dir():  # a link to nowhere, too
        raise FileError(f"{str(path.parent)!r} is not a directory, which the parts of {what!r} need")
    lock = FileLock(path, timeout=MOMENT)
    try:
        # Its last holder may remove the lock, and its directory, at any moment: it counts if it is there once it is ours.
        while not (lock.is_locked and path.exists()):
            lock.release(force=True)
            with suppress(FileNotFoundError, FileExistsError):
                path.parent.mkdir(parents=True, exist_ok=True)
                lock.acquire()
    except Timeout:
        owner = "another process"
        if path.name == LOCK:
            with suppress(OSError):
                owner = (path.parent / OWNER).read_text()[:200]
        raise FileError(f"{what!r} is being written by {owner}: wait for it, or stop it") from None
    try:
        yield
    finally:
        lock.release()


def _part_name(point: Sequence[Any], first: int, count: int) -> str:
    """The file name of a unit: a digest of its point, its samples."""
    digest = hashlib.sha256(canonical(list(point)).encode()).hexdigest()[:16]
    return f"{digest}-s{first:07d}-{count}.npz"


def _read(name: str, data: bytes, experiment: Experiment | None) -> dict[str, Any]:
    """The fields of the result in a part; an exception of whatever type if it is not sound, or of another run."""
    if not disk.fits(data):
        raise ValueError("its contents do not match their checksum")
    with np.load(io.BytesIO(data[: -disk.LENGTH]), allow_pickle=False) as arrays:
        about = json.loads(str(arrays["about"]))
        columns = {key: arrays[key] for key in arrays if key != "about"}
    point, first, count = tuple(about["point"]), int(about["first"]), int(about["count"])
    if name != _part_name(point, first, count) or first < 0 or count < 1:
        raise ValueError("its name and its contents differ")
    if experiment is not None:
        if about["experiment"] != experiment.name:
            raise ValueError(f"it is of a {about['experiment']}")
        record = experiment.record_of(point)
        if apart := differences([about["given"]], [record], experiment.defaults):
            raise ValueError(f"it is of another run: {apart}")
        if first + count > experiment.samples:
            raise ValueError("it holds samples beyond those of this run")
        experiment.computation(point).check(columns, record, count)
    found = {"point": point, "first": first, "count": count, "columns": columns}
    found |= {"seconds": float(about["seconds"]), "host": about["host"], "device": about["device"]}
    return found | {"made": about.get("made", {})}  # none in parts of version 0.2


def differences(
    there: list[dict[str, Any]], here: list[dict[str, Any]], defaults: Mapping[str, Any] | None = None
) -> str:
    """In words, how two lists of records differ: "samples 16 there, 32 here; ..."; empty if they agree.

    defaults   what a record means by not having a name
    """
    if len(there) != len(here):
        return f"{len(there)} model(s) there, {len(here)} here"
    found: dict[str, None] = {}
    for both in zip(there, here, strict=True):
        for name in dict.fromkeys([*both[1], *both[0]]):
            old, new = (record.get(name, (defaults or {}).get(name)) for record in both)
            if canonical(old) != canonical(new):
                found[f"{name} {_short(old)} there, {_short(new)} here"] = None
    return "; ".join(list(found)[:4]) + ("; ..." if len(found) > 4 else "")


def canonical(value: Any) -> str:
    """Plain data as text that is equal where the data are."""
    return json.dumps(value, sort_keys=True)


def _short(value: Any) -> str:
    """A value in a few words: lists by their ends."""
    if not isinstance(value, list):
        return str(value)
    words = [f"{item:g}" if isinstance(item, int | float) else str(item) for item in value[:3] + value[-1:]]
    return (
        ",".join(words[: len(value)]) if len(value) <= 3 else f"{words[0]}..{words[-1]} ({len(value)} points)"
    )
