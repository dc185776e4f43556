"""The parts of an unfinished run: one file per finished unit, in the directory FILE.h5.parts beside the output.

A part is a zip of arrays (npz, no pickles) with a seal behind it (bbp.files.disk), landed by temporary file, fsync and
rename. It states what it holds (experiment, point, samples and all that decides its numbers), and that is checked, with
the type and shape of every column, when it is read: parts of any block size, in any order, from any number of processes
make up one run, and none counts for another point or another run. A damaged one is set aside and computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from bbp.console.messages import FileError, log
from bbp.engine.experiment import Experiment, canonical, differences
from bbp.engine.tasks import DONE, FAILED, Point, Result
from bbp.files import disk

PLAN, FORMAT, VERSION = "plan.json", "bbp-parts", 2
LOCK, OWNER = "run.lock", "run.owner"  # of a run; of a task "3-of-10.lock"
PLAN_LOCK = "plan.lock"
LARGEST = 2**30  # bytes of a part, and of a plan
_OURS = re.compile(r"[\w-]+-s\d{7,}-\d+\.(npz|damaged)|plan\.json|\.bbp-.*\.tmp")
_LOCKS = re.compile(r"run\.owner|(run|plan)\.lock|\d+-of-\d+\.lock")


class Parts:
    """The directory of parts of the run whose file is to be `out`."""

    ENDING = ".parts"

    def __init__(self, out: Path):
        self.path = out.with_name(out.name + self.ENDING)
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
        wanted = experiment.records()
        if not self.exist():
            if found:
                raise FileError(
                    f"{str(self.path)!r} holds parts but no {PLAN}: of which run? (--force discards them)"
                )
            plan = {"format": FORMAT, "version": VERSION, "experiment": experiment.name, "records": wanted}
            with FileLock(self.path / PLAN_LOCK):
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
            known = plan["format"] == FORMAT and plan["version"] == VERSION
            sound = not known or (isinstance(plan["records"], list) and isinstance(plan["experiment"], str))
        except (FileError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise FileError(
                f"{str(self.plan)!r} cannot be read: {error} (--force discards the parts)"
            ) from None
        if not known or not sound:
            raise FileError(f"{str(self.plan)!r} is of another version of bbp (--force discards the parts)")
        return plan

    def save(self, result: Result, experiment: Experiment) -> None:
        """Add one part, atomically. OSError leaves the other parts as they are."""
        about = {
            "experiment": experiment.name,
            "point": result.point,
            "given": experiment.given(result.point),
            "first": result.first,
            "count": result.count,
            "seconds": result.seconds,
            "host": result.host,
            "device": result.device,
            "made": dict(result.made),
        }
        buffer = io.BytesIO()
        columns = {  # objects would need pickles
            name: values.astype(str) if values.dtype.kind == "O" else values
            for name, values in result.columns.items()
        }
        np.savez(buffer, about=np.array(json.dumps(about)), **columns)  # type: ignore[arg-type]
        name = part_name(result.point, result.first, result.count)
        disk.write_bytes(self.path / name, disk.sealed(buffer.getvalue()))

    def load(self, experiment: Experiment | None = None, *, set_aside: bool = False) -> Iterator[Result]:
        """Every sound part of the experiment, in order of name; without one, whatever run they are of.

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

    def leave(self) -> None:
        """Remove locks and directory where nothing of the run is kept in it; files of others stay."""
        with suppress(OSError):
            held = list(self.path.iterdir())
            if not any(_OURS.fullmatch(path.name) for path in held):
                for path in held:
                    if _LOCKS.fullmatch(path.name):
                        path.unlink(missing_ok=True)
                self.path.rmdir()

    def discard(self) -> None:
        """Remove the plan, then the parts; what is not ours stays, and so do locks until their holder leaves."""
        with suppress(FileNotFoundError):
            # The plan goes first: parts that a process killed here leaves are refused, and not taken for those of a run.
            for path in sorted(self.path.iterdir(), key=lambda path: path.name != PLAN):
                if _OURS.fullmatch(path.name) and not path.is_dir():
                    path.unlink(missing_ok=True)


def part_name(point: Point, first: int, count: int) -> str:
    """The file name of a unit: a digest of its point, its samples."""
    digest = hashlib.sha256(canonical(list(point)).encode()).hexdigest()[:16]
    return f"{digest}-s{first:07d}-{count}.npz"


def _read(name: str, data: bytes, experiment: Experiment | None) -> Result:
    """The result in a part; an exception of whatever type if it is not sound, or of another run."""
    if not disk.fits(data):
        raise ValueError("its contents do not match their checksum")
    data = data[: -disk.LENGTH]
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        about = json.loads(str(arrays["about"]))
        columns = {key: arrays[key] for key in arrays if key != "about"}
    point, first, count = tuple(about["point"]), int(about["first"]), int(about["count"])
    if name != part_name(point, first, count) or first < 0 or count < 1:
        raise ValueError("its name and its contents differ")
    if experiment is not None:
        _check(about, point, columns, experiment)
    made = about.get("made", {})  # none in parts of version 0.2
    return Result(point, first, count, columns, float(about["seconds"]), about["host"], about["device"], made)


def _check(about: dict[str, Any], point: Point, columns: dict[str, Any], experiment: Experiment) -> None:
    """ValueError unless the part is of this experiment's numbers, and its columns are as declared."""
    unit = experiment.unit(point, about["first"], about["count"])
    if about["experiment"] != experiment.name:
        raise ValueError(f"it is of a {about['experiment']}")
    apart = differences([about["given"]], [dict(unit.given)], experiment.defaults)
    if apart:
        raise ValueError(f"it is of another run: {apart}")
    if unit.first + unit.count > experiment.samples:
        raise ValueError("it holds samples beyond those of this run")
    sizes = {**unit.kind.sizes(unit.given), "sample": unit.count}
    for field in unit.kind.columns:
        field.check(columns[field.name], [sizes[dim] for dim in field.dims])
    if not np.isin(columns["status"], (DONE, FAILED)).all():
        raise ValueError("its status is neither done nor failed")
