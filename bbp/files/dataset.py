"""Results as files: an `xarray.Dataset` to HDF5 and back, the only module that knows what lies where.

A file is netCDF-4: dimension scales, `_FillValue`, `long_name`, `units`, so that xarray, h5py, netCDF4, ncdump and Octave
read it without this package. The attribute `format` ("bbp-sweep", ...) says what it is. Memory and file differ in this:

* variables theory_edge, theory_n_lowest, conditioned_edge, ... lie in groups, /theory/edge, ... (`GROUPS`);
* the attribute `config` (JSON of every option that decides the numbers) is the dataset /config: attributes end at 64 KiB;
* numbers that may be missing are NaN in memory, and in integer datasets the `_FillValue` (`bbp.files.variables.FILL`).

A file is written whole or not at all, and the checksum of all its bytes stands behind them (`bbp.files.disk`): a flipped bit
is found before HDF5 sees the file. A program that changes the file drops the checksum, and the file is then read as it is.
"""

from __future__ import annotations

import builtins
import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from bbp.console.messages import FileError, log
from bbp.files import disk
from bbp.files.product import combined
from bbp.files.variables import CONVENTIONS, FILL, REQUIRED, TEXT, described, words_of
from theory.checks import shown

try:
    import fcntl
except ImportError:  # not a POSIX system: nobody's lock can be asked for
    fcntl = None  # type: ignore[assignment]

VERSION = 1
SWEEP, DESCENT, PHASE, FIGURE = "bbp-sweep", "bbp-descent", "bbp-phase", "bbp-figure"  # formats
Locking = bool | str | None
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Prefixes of variables that lie in a group of their own, by format; the longer before the shorter.
GROUPS: dict[str, tuple[str, ...]] = {
    "bbp-sweep": ("theory_n", "theory"),
    "bbp-phase": ("widths",),
    "bbp-descent": ("conditioned", "quenched", "annealed"),
}
_UNITS = "provenance"  # the group of what is over "unit", the pieces of work
# In older files /widths had coordinates p and a of its own, which readers of whole trees refuse.
_RENAMED = {"widths": {"p": "width", "a": "at_a"}}
_BOOKKEEPING = ("_NCProperties", "sha256")
_SCALE = ("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS")


def write(path: str | Path, found: xr.Dataset) -> None:
    """Write a result to `path`, whole or not at all (OSError); `found.attrs["format"]` says what it is."""
    disk.write_bytes(Path(path), disk.sealed(packed(found)))


def packed(found: xr.Dataset) -> bytes:
    """The bytes of the HDF5 file that holds `found`, without a checksum."""
    found = described(found)
    form = str(found.attrs["format"])
    attributes = {
        name: str(value) if isinstance(value, str) else value
        for name, value in found.attrs.items()
        if name != "config"
    }
    auxiliary = " ".join(str(name) for name in found.coords if name not in found.dims)
    with h5py.File("in memory", "w", driver="core", backing_store=False, track_order=True) as file:
        scales = {str(dim): _scale(file, form, found, str(dim)) for dim in found.dims}
        for name, values in found.variables.items():
            if name not in scales:
                item = _stored(file, _place(form, str(name), values.dims), str(name), values)
                for dimension, dim in zip(item.dims, values.dims, strict=True):
                    dimension.attach_scale(scales[str(dim)])
        config = file.create_dataset(
            "config", data=str(found.attrs.get("config", "{}")), dtype=h5py.string_dtype()
        )
        config.attrs["long_name"] = words_of("config")
        attributes |= {"coordinates": auxiliary} if auxiliary else {}
        file.attrs.update({"Conventions": CONVENTIONS, **attributes, "format_version": VERSION})
        file.flush()
        return file.id.get_file_image()


def open(path: str | Path, kind: str | None = None, *, locking: Locking = None) -> xr.Dataset:
    """The result in the file at `path`: sweep, phase diagram, descents, comparison or the data of a figure.

    Parameters
    ----------
    path : str or Path
    kind : str
        Refuse any other, such as "bbp-sweep".
    locking : bool or "best-effort"
        True: refuse a file that another process has open for writing, and one whose file system has no locks; "best-effort":
        the former only; False, None: take no lock, the checksum tells a file half written.

    Returns
    -------
    xarray.Dataset
        In memory, checked.

    Raises
    ------
    FileError
        In one line: no such file, not HDF5, truncated, foreign, damaged, of a newer version.

    >>> open("data/finite_size/c200.h5").sizes["sample"]
    500
    """
    if not isinstance(path, str | os.PathLike):
        raise FileError(f"path must be the name of a file, got {shown(path)}")
    with _explained(path):
        with h5py.File(io.BytesIO(_verified(path, locking))) as file:
            form = _checked_format(file, repr(str(path)), kind)
            found = _read(file, form)
        _require(form, found)
        return described(found)


def open_all(sources: Iterable[Any], kind: str | None = None) -> list[xr.Dataset]:
    """Results as they are, and files opened; ParameterError for a file named twice."""
    sources = list(sources)
    disk.require_once(sources)
    return [one if isinstance(one, xr.Dataset) else open(one, kind) for one in sources]


def kind_of(path: str | Path, *, locking: Locking = None) -> str:
    """The format of a file of this package, for instance "bbp-sweep"; FileError for any other file."""
    with _explained(path), h5py.File(io.BytesIO(_verified(path, locking))) as file:
        return _checked_format(file, repr(str(path)), None)


def config(found: xr.Dataset) -> dict[str, Any]:
    """The options that decided the numbers of a result of one model, by name; ValueError where they are no such thing."""
    held = json.loads(str(found.attrs.get("config", "{}")))
    if not isinstance(held, dict):
        raise ValueError(f"config holds a {type(held).__name__}, not a dict")
    return held


def _place(form: str, name: str, dims: tuple[Any, ...]) -> str:
    """Where a variable lies in the file."""
    if "unit" in dims:
        return f"{_UNITS}/{name}"
    for group in GROUPS.get(form, ()):
        if name.startswith(group + "_"):
            return f"{group}/{name.removeprefix(group + '_')}"
    return name


def _scale(file: h5py.File, form: str, found: xr.Dataset, dim: str) -> h5py.Dataset:
    """The dataset that is a dimension: its coordinate, or its numbers from 0 on."""
    values = found.variables.get(dim, xr.Variable((dim,), np.arange(found.sizes[dim])))
    scale = _stored(file, _place(form, dim, values.dims), dim, values)
    scale.make_scale(dim)
    return scale


def _stored(file: h5py.File, place: str, name: str, values: xr.Variable) -> h5py.Dataset:
    """A variable in the file. Arrays over models, which are sparse where each has alphas of its own, are compressed."""
    data, dtype = values.values, values.dtype
    fill: float | None = None
    if name in FILL:
        dtype, fill = np.dtype(FILL[name][0]), FILL[name][1]
        data = np.where(np.isnan(data), fill, data).astype(dtype)
    elif dtype.kind == "f" and values.dims != (name,):
        fill = np.nan
    elif dtype.kind in "OUT":
        data, dtype = data.astype(object), h5py.string_dtype()
    elif dtype.kind == "b":
        data, dtype = data.astype(np.int8), np.dtype(np.int8)
    packing = {"compression": 3} if "model" in values.dims and values.ndim > 2 and values.size else {}
    item = file.create_dataset(place, data=data, dtype=dtype, **packing)
    item.attrs.update({key: value for key, value in values.attrs.items() if key != "_FillValue"})
    if fill is not None:
        item.attrs["_FillValue"] = np.array([fill], dtype=dtype)
    return item


def _read(group: h5py.Group, form: str) -> xr.Dataset:
    """The Dataset in the root of a file, or in the group of a model in older files."""
    attributes = {name: _plain(group.attrs[name]) for name in group.attrs if name not in _BOOKKEEPING}
    if "models" in attributes:
        head = {name: attributes[name] for name in ("format", "format_version")}
        number = int(attributes["models"])
        return combined([_read(group[f"model_{i:03d}"], form).assign_attrs(head) for i in range(number)])
    variables: dict[str, xr.Variable] = {}
    for name, item in _datasets(group):
        variables[_name(form, name, item)] = _variable(form, name, item)
    auxiliary = str(attributes.pop("coordinates", "")).split()
    if "config" in variables:
        attributes["config"] = str(variables.pop("config").values[()])
    return xr.Dataset(variables, attrs=attributes).set_coords(auxiliary)


def _datasets(group: h5py.Group, prefix: str = "") -> Iterator[tuple[str, h5py.Dataset]]:
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            if prefix:  # none of ours; a group that holds itself would have no end
                raise ValueError(f"{prefix}{name} is a group within a group")
            yield from _datasets(item, f"{prefix}{name}/")
        else:
            yield prefix + name, item


def _name(form: str, place: str, item: h5py.Dataset) -> str:
    """What the dataset at this place is called in memory."""
    group, _, name = place.rpartition("/")
    if item.is_scale:
        return _RENAMED.get(group, {}).get(name, name)
    if form == "bbp-compare" and name.startswith("quenched_"):  # in older files
        return "theory_n_" + name.removeprefix("quenched_").replace("present", "phi_group")
    return name if group in ("", _UNITS) else f"{group.replace('/', '_')}_{name}"


def _variable(form: str, place: str, item: h5py.Dataset) -> xr.Variable:
    """A dataset with its dimensions and attributes; NaN for the integers that are missing."""
    scales = [item] if item.is_scale else [dim[0] if len(dim) else None for dim in item.dims]
    names = [
        f"{place}_{i}" if scale is None else str(scale.name).rpartition("/")[2]
        for i, scale in enumerate(scales)
    ]
    renamed = _RENAMED.get(place.rpartition("/")[0], {})
    dims = [
        renamed.get(n, n) if s is not None and s.name != f"/{n}" else n
        for n, s in zip(names, scales, strict=True)
    ]
    attributes = {
        k: _plain(item.attrs[k]) for k in item.attrs if k not in _SCALE and not k.startswith("_Netcdf4")
    }
    fill = attributes.pop("_FillValue", None)
    values = item.asstr()[()] if h5py.check_string_dtype(item.dtype) else item[()]
    if fill is not None and item.dtype.kind in "iu":
        values = np.where(values == fill, np.nan, values)
    return xr.Variable(dims, values, attributes)


def _require(form: str, found: xr.Dataset) -> None:
    """ValueError or KeyError, in words, where a result lacks what programs need."""
    for name, dims in REQUIRED[form].items():
        values = found.variables[name]
        own = tuple(dim for dim in values.dims if dim != "model")
        if own != tuple(dims.split()):
            raise ValueError(
                f"{name} is over {', '.join(map(str, own)) or 'nothing'}, not over {', '.join(dims.split())}"
            )
        if (values.dtype.kind in "OUT") != (name.removeprefix("widths_") in TEXT):
            raise ValueError(f"{name} is of type {values.dtype}")
    if not isinstance(json.loads(found.attrs["config"]), list if "model" in found.dims else dict):
        raise ValueError("config is of another shape")
    if form in GROUPS and "model" not in found.dims:
        for name in ("p_star",) if form == "bbp-phase" else ("p", "p_star", "a", "alpha_bbp", "kind"):
            if not isinstance(found.attrs[name], str if name == "kind" else int | float):
                raise ValueError(f"attribute {name} is {found.attrs[name]!r}")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if np.size(value) != 1:
        return np.asarray(value) if np.ndim(value) else value
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def _verified(path: str | Path, locking: Locking) -> bytes:
    """The bytes of the HDF5 file at `path`, whose checksum fits; FileError if they are not fit to be read."""
    name = repr(str(path))
    disk.require_file(path)
    if locking and _is_held(path, strict=locking is True):
        raise FileError(f"{name} is open for writing in another process: try again when that has closed it")
    data = disk.read_bytes(path)
    if not data:
        raise FileError(f"{name} is empty")
    if not data.startswith(_SIGNATURE):
        raise FileError(f"{name} is not an HDF5 file")
    sound = disk.fits(data)
    if sound is False:
        raise ValueError("its contents do not match their checksum")
    if sound is None:
        log.debug("%s carries no checksum: changed by another program, or older than checksums", name)
    return data


def _is_held(path: str | Path, *, strict: bool = False) -> bool:
    """Whether another process holds the lock that HDF5 takes to write the file; FileError, if `strict`, without locks."""
    with builtins.open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except (OSError, AttributeError) as error:
            if strict:
                raise FileError(f"{str(path)!r} cannot be locked: {error} (--locking false)") from None
    return False


@contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    """Whatever reading the file at `path` raises, as a FileError in one line: none of it is the program's fault."""
    try:
        yield
    except FileError:
        raise
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        words = ("truncated" if "truncated" in text else "damaged") + f": {text}"
        if _is_held(path):
            words = "open for writing in another process: try again"
        raise FileError(f"{str(path)!r} is {words}") from None


def _checked_format(file: h5py.File, name: str, kind: str | None) -> str:
    found = _plain(file.attrs.get("format"))
    if not isinstance(found, str) or found not in REQUIRED:
        raise FileError(f"{name} is an HDF5 file, but not one of bbp's")
    if kind is not None and found != kind:
        raise FileError(f"{name} is a {found} file, not a {kind} file")
    number = int(_plain(file.attrs["format_version"]))
    if number != VERSION:
        age = (
            "newer than this program's {}: update bbp"
            if number > VERSION
            else "older than this program's {}: run it again"
        )
        raise FileError(f"{name} has {found} version {number}, {age.format(VERSION)}")
    return found
