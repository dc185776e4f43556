"""The parts of an unfinished `bbp descent`: one file for each finished point (N, start, alpha), in FILE.h5.parts.

Points are written whole or not at all, and the plan beside them says of which run they are (bbp.engine.parts).
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from bbp.console.program import log
from bbp.engine.parts import Parts
from bbp.files import atomic
from sims.descent.samples import Descents

_NAMES = [field.name for field in fields(Descents)]


class DescentParts:
    """The directory of finished points of the run whose file is to be `out`."""

    def __init__(self, out: Path):
        self.parts = Parts(out)

    def begin(self, wanted: dict[str, Any]) -> dict[int, Descents]:
        """Finished points by their number, after checking that they are of this run (FileError); new runs leave their plan."""
        self.parts.tidy()
        self.parts.begin([wanted])
        return {
            number: point for path in sorted(self.parts.path.glob("*.npz")) for number, point in _read(path)
        }

    def save(self, number: int, found: Descents) -> None:
        """Add one point, atomically."""
        arrays: dict[str, Any] = {name: np.asarray(getattr(found, name)) for name in _NAMES}
        arrays["reason"] = arrays["reason"].astype(str)  # objects would need pickles
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        atomic.write_bytes(self.parts.path / f"{number:06d}.npz", buffer.getvalue())


def _read(path: Path) -> list[tuple[int, Descents]]:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as data:
            arrays: dict[str, Any] = {name: data[name] for name in _NAMES}
        arrays["reason"] = arrays["reason"].astype(object)
        return [(int(path.stem), Descents(**arrays))]
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        log.warning("part %s is damaged (%s): it is computed again", path.name, error)
        return []
