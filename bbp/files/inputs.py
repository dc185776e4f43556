"""Inputs of one's own from files: .npy (mapped, not read), .npz, HDF5 as FILE.h5:/DATASET, .csv and .txt."""

from __future__ import annotations

import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bbp.console.messages import FileError
from bbp.files import disk
from theory.checks import ParameterError, shown
from theory.model.inputs import Inputs

_HDF5 = (".h5", ".hdf5", ".hdf", ".nc")
_TEXT = {".csv": ",", ".tsv": "\t", ".txt": None, ".dat": None}
RAW = "raw:"  # before a path: not centred
_ENDINGS = ".npy, .npz, .csv, .tsv, .txt or FILE.h5:/DATASET"


def inputs(rows: Any, *, name: str | None = None, centred: bool = True) -> Inputs:
    """Inputs of one's own, for `theory.Network(..., inputs=...)`: rows in the place of Gaussian ones.

    Parameters
    ----------
    rows : array (M0, N) or path
        Samples along the first axis, integers or floats; or where they lie: .npy (mapped into memory),
        .npz (its only matrix, or FILE.npz:NAME), FILE.h5:/DATASET, .csv or .txt (a first line of names is left out);
        "raw:" before a path: not centred.
    name : str
        For tables and records; the path, or "inputs", unless given.
    centred : bool
        Subtract the mean of every column.

    Returns
    -------
    theory.Inputs
        Entries are divided by one number, so that their mean square is 1.

    Raises
    ------
    theory.checks.ParameterError
        On what is no matrix of finite real numbers.
    bbp.console.messages.FileError
        On a file that cannot be read.

    >>> inputs([[1, 2], [3, 5], [0, 1]]).words
    'inputs (3 x 2, centred)'
    """
    if isinstance(rows, Inputs):
        return rows
    if isinstance(rows, str | os.PathLike):
        text = os.fspath(rows)
        bare = text.removeprefix(RAW)
        return Inputs.of(_read(bare), name=text if name is None else name, centred=centred and bare == text)
    return Inputs.of(rows, name="inputs" if name is None else name, centred=centred)


def _read(text: str) -> Any:
    """The matrix at `text`."""
    path, part = _place(text)
    ending = path.suffix.lower()
    if ending not in (".npy", ".npz", *_HDF5, *_TEXT):
        raise ParameterError(f"inputs must be a file {_ENDINGS}, got {shown(text)}")
    disk.require_file(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if ending == ".npy":
                return np.load(path, mmap_mode="r")
            if ending == ".npz":
                return _of_many(text, path, part)
            if ending in _HDF5:
                return _of_hdf5(text, path, part)
            return _of_text(path, _TEXT[ending])
    except (OSError, ValueError, EOFError, UnicodeDecodeError, zipfile.BadZipFile, MemoryError) as error:
        if isinstance(error, FileError | ParameterError):
            raise
        first = " ".join(str(error).split()) or type(error).__name__
        raise FileError(f"{text!r} cannot be read as a matrix of numbers: {first[:200]}") from None


def _place(text: str) -> tuple[Path, str]:
    """The file, and what is named in it."""
    for ending in (".npz", *_HDF5):
        head, colon, tail = text.partition(f"{ending}:")
        if colon:
            return Path(head + ending).expanduser(), tail
    return Path(text).expanduser(), ""


def _of_many(text: str, path: Path, part: str) -> Any:
    with np.load(path) as held:
        names = [part] if part else [name for name in held.files if held[name].ndim == 2]
        if len(names) != 1 or names[0] not in held.files:
            raise ParameterError(
                f"inputs must name a matrix of {path}, as {path}:NAME of {', '.join(held.files)}"
            )
        return held[names[0]]


def _of_hdf5(text: str, path: Path, part: str) -> Any:
    import h5py  # late: processes that only compute need not wait for it

    def is_matrix(each: Any) -> bool:
        return isinstance(each, h5py.Dataset) and each.ndim == 2

    with h5py.File(path, "r") as file:
        names: list[str] = []
        file.visititems(lambda name, each: names.append(f"/{name}") if is_matrix(each) else None)
        if not part and len(names) == 1:
            part = names[0]
        if not part or part not in file or not isinstance(file[part], h5py.Dataset):
            some = ", ".join(names[:8]) or "none"
            raise ParameterError(
                f"inputs must name a dataset, as {path}:/NAME, got {shown(text)} (matrices there: {some})"
            )
        found = file[part]
        offset = found.id.get_offset()
        if offset is None or found.dtype.kind not in "iufb":
            return found[()]
        shape, dtype = found.shape, found.dtype
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)


def _of_text(path: Path, delimiter: str | None) -> Any:
    with open(path, encoding="utf-8-sig") as file:
        first = next((line for line in file if line.strip() and not line.startswith("#")), "")
    cells = first.split(delimiter)
    try:
        [float(cell) for cell in cells]
        skip = 0
    except ValueError:
        skip = 1
    return np.loadtxt(path, delimiter=delimiter, skiprows=skip, ndmin=2, encoding="utf-8-sig")
