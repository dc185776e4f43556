"""The parts of an unfinished sweep: one file per finished unit, in the directory FILE.h5.parts beside the output.

A shard is a zip of arrays (npz: no pickles, a CRC each) that landed by temporary file, fsync and rename. Its name says
what it holds, so shards of any block size, in any order, from any number of processes make up one sweep; a damaged one
is set aside and computed again.
"""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bbp.console.errors import FileError
from bbp.console.program import log
from bbp.engine.tasks import ARRAYS, Point, Result
from bbp.experiments import sweep
from bbp.files import atomic

PLAN, FORMAT, VERSION = "plan.json", "bbp-sweep-parts", 1


class Parts:
    """The directory of shards of the sweep whose file is to be `out`."""

    def __init__(self, out: Path):
        self.path = out.with_name(out.name + ".parts")
        self.plan = self.path / PLAN

    def exist(self) -> bool:
        """Whether an unfinished run has left its plan here."""
        return self.plan.exists()

    def begin(self, records: list[dict[str, Any]]) -> None:
        """Create the directory with its plan, or check that the plan already there agrees; FileError if not.

        Several tasks may begin at once: the first plan stays, the others compare themselves with it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        # Looked for before the plan: a task that begins beside this one writes its plan first and its shards after.
        shards = any(self.path.glob("*.npz"))
        if not self.exist():
            if shards:
                raise FileError(
                    f"{str(self.path)!r} holds shards but no {PLAN}: of which sweep? (--force discards them)"
                )
            text = json.dumps({"format": FORMAT, "version": VERSION, "records": records}, indent=1)
            with suppress(FileExistsError):
                atomic.create(self.plan, text.encode())
        difference = sweep.differences(self._records(), records)
        if difference:
            raise FileError(
                f"{str(self.path)!r} holds parts of another sweep: {difference} (--force discards them)"
            )

    def save(self, result: Result) -> None:
        """Add one shard, atomically. OSError leaves the other shards as they are."""
        buffer = io.BytesIO()
        arrays = {name: getattr(result, name) for name in ARRAYS}
        about = {
            "point": result.point,
            "first": result.first,
            "count": result.count,
            "seconds": result.seconds,
        }
        where = {"host": result.host, "device": result.device}
        np.savez(buffer, about=np.array(json.dumps(about | where)), **arrays)
        atomic.write_bytes(
            self.path / shard_name(result.point, result.first, result.count), buffer.getvalue()
        )

    def load(self, *, set_aside: bool = False) -> Iterator[Result]:
        """Every sound shard, in order of name; a warning for a damaged one, which `set_aside` renames *.damaged."""
        for path in sorted(self.path.glob("*.npz")):
            try:
                yield _read(path)
            except (
                ValueError,
                KeyError,
                TypeError,
                EOFError,
                zipfile.BadZipFile,
                zipfile.LargeZipFile,
            ) as error:
                log.warning("shard %s is damaged (%s): it does not count", path.name, error)
                if set_aside:
                    path.replace(path.with_suffix(".damaged"))

    def tidy(self) -> None:
        """Remove what killed writers left half written. Only while no other process writes here."""
        if self.path.is_dir():
            atomic.sweep_leftovers(self.path)

    def discard(self) -> None:
        """Remove the directory: renamed first, so that a crash half way cannot pass for an unfinished run.

        Where it holds files of somebody else's only our own are removed, the plan first, and a warning names the place.
        """
        if not self.path.is_dir():
            return
        ours = [path for path in self.path.iterdir() if _is_ours(path)]
        if len(ours) < sum(1 for _ in self.path.iterdir()):
            self.plan.unlink(missing_ok=True)
            for path in ours:
                path.unlink(missing_ok=True)
            log.warning("%s holds files that are not of this program: they are left there", self.path)
        else:
            doomed = atomic.temporary(self.path)
            self.path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def _records(self) -> list[dict[str, Any]]:
        try:
            plan = json.loads(self.plan.read_text())
            known = plan["format"] == FORMAT and plan["version"] == VERSION
            records = plan["records"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileError(
                f"{str(self.plan)!r} cannot be read: {error} (--force discards the parts)"
            ) from None
        if not known or not isinstance(records, list):
            raise FileError(f"{str(self.plan)!r} is of another version of bbp (--force discards the parts)")
        return records


def _is_ours(path: Path) -> bool:
    known = path.name == PLAN or path.suffix in (".npz", ".damaged") or path.name.endswith(atomic.SUFFIX)
    return known and path.is_file()


def shard_name(point: Point, first: int, count: int) -> str:
    """The file name of a unit: model, n, the bits of alpha, samples."""
    bits = struct.pack(">d", point.alpha).hex()
    return f"m{point.model:03d}-n{point.n:07d}-a{bits}-s{first:07d}-{count}.npz"


def _read(path: Path) -> Result:
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as data:
        about = json.loads(str(data["about"]))
        arrays = {name: data[name] for name in ARRAYS}
    point = Point(*about.pop("point"))
    if path.name != shard_name(point, about["first"], about["count"]):
        raise ValueError("its name and its contents differ")
    if any(len(array) != about["count"] for array in arrays.values()):
        raise ValueError("its arrays have the wrong length")
    return Result(point=point, **about, **arrays)
