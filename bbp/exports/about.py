"""What a file holds, in words that fit a screen: model, coordinates, origin, options, datasets with their dimensions."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bbp import store
from bbp.console.progress import duration
from bbp.experiments import models
from bbp.files import hdf5, layout

WIDE = 110  # characters of a line
MOST = 4  # values of a coordinate that are spelled out
_KNOWN = {
    "format",
    "format_version",
    "sha256",
    "versions",
    "commit",
    "created",
    "finished",
    "seconds",
    "models",
}
_MODEL = ("p", "p_star", "a", "alpha_bbp", "kind")


def about(path: str | Path, form: str) -> str:
    """The lines about the file at `path`, of format `form`: labels in one column, datasets in others."""
    with hdf5.reading(path, form) as file:
        attributes = hdf5.attributes(file)
        config = hdf5.get_json(file, "config") if "config" in file else {}
        scales, datasets = _datasets(file)
        lines = {"format": f"{form}, version {attributes.get('format_version')}"}
        lines |= _model(attributes, config)
        lines |= {
            name: text
            for name, text in (("figure", attributes.get("figure")), ("claim", attributes.get("caption")))
            if text
        }
        lines |= {name: _coordinate(item) for name, item in scales.items() if "/" not in name}
        lines |= {
            name: str(attributes[name])
            for name in sorted(set(attributes) - _KNOWN - set(_MODEL) - {"figure", "caption"})
        }
        lines |= _origin(attributes)
        lines["options"] = ", ".join(
            f"{name} {_short(value)}" for name, value in config.items() if value is not None
        )
        return "\n".join([aligned(lines), "", *_listed(datasets)])


def datasets(path: str | Path, form: str) -> list[str]:
    """A line for each dataset of the file at `path`, of one of its models where it holds several."""
    with hdf5.reading(path, form) as file:
        number = int(file.attrs.get("models", 0))
        root = file[store.group_name(0)] if number else file
        head = [f"each of {number} groups {store.group_name(0)}, ... holds"] if number else []
        return [*head, *_listed(_datasets(root)[1])]


def aligned(lines: Mapping[str, str]) -> str:
    """Labels in one column and text in the next, folded at the width of a screen.

    >>> print(aligned({"format": "bbp-phase", "format_version": "1"}))
    format          bbp-phase
    format_version  1
    """
    left = max(13, *(len(label) + 1 for label in lines)) + 1
    folded = []
    for label, text in lines.items():
        rows = textwrap.wrap(str(text), WIDE - left, break_on_hyphens=False) or [""]
        folded += [f"{label:{left}}{rows[0]}", *(" " * left + row for row in rows[1:])]
    return "\n".join(folded)


def _model(attributes: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, str]:
    named = {"p": "p", "p_star": "p*", "a": "a"}
    if not models.has_a(config):
        del named["a"]
    words = [f"{short}={attributes[name]:g}" for name, short in named.items() if name in attributes]
    words += [f"{name}={models.short(value)}" for name, value in models.special(config).items()]
    lines = {"model": " ".join(words)} if words else {}
    if "alpha_bbp" in attributes:
        lines["alpha_BBP"] = f"{attributes['alpha_bbp']:.6g} ({attributes.get('kind')})"
    return lines


def _origin(attributes: Mapping[str, Any]) -> dict[str, str]:
    lines = {"finished": "yes" if attributes.get("finished") else "no"}
    if "created" in attributes:
        lines["written"] = f"{attributes['created']} at commit {attributes.get('commit', 'unknown')}"
    if isinstance(attributes.get("seconds"), float):
        lines["computed in"] = duration(attributes["seconds"])
    try:
        versions = json.loads(str(attributes.get("versions", "{}")))
    except (ValueError, RecursionError):
        versions = {}
    if isinstance(versions, dict) and versions:
        lines["versions"] = ", ".join(f"{name} {number}" for name, number in versions.items())
    return lines


def _datasets(file: h5py.Group) -> tuple[dict[str, h5py.Dataset], dict[str, h5py.Dataset]]:
    items = {
        name: item for name, item in layout.walk(file) if isinstance(item, h5py.Dataset) and name != "config"
    }
    scales = {name: item for name, item in items.items() if item.is_scale}
    return scales, {name: item for name, item in items.items() if name not in scales}


def _coordinate(scale: h5py.Dataset) -> str:
    values = scale.asstr()[()] if h5py.check_string_dtype(scale.dtype) else scale[()]
    values = np.atleast_1d(values)
    if values.size <= MOST or values.dtype.kind == "O":
        return ", ".join(_number(value) for value in values[:20]) or "none"
    return f"{_number(values[0])} to {_number(values[-1])}, {values.size} values"


def _number(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.6g}" if math.isfinite(value) else str(float(value))
    return str(value)


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > MOST:
        return f"[{_number(value[0])}, ..., {_number(value[-1])}] ({len(value)})"
    return json.dumps(value)


def _listed(datasets: Mapping[str, h5py.Dataset]) -> Iterable[str]:
    rows = [("dataset", "over", "type", "what it is")]
    for name, item in datasets.items():
        dims = ", ".join(
            f"{_dimension(dim)} {length}" for dim, length in zip(item.dims, item.shape, strict=True)
        )
        kind = "text" if h5py.check_string_dtype(item.dtype) else str(item.dtype)
        rows.append(
            (name, f"({dims})" if dims else "one value", kind, hdf5.text_attribute(item, "long_name") or "")
        )
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, [*wide, 0], strict=True)]
        yield "  ".join(cells).rstrip()


def _dimension(dim: Any) -> str:
    return str(dim[0].name).rpartition("/")[2] if len(dim) else "?"
