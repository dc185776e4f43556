"""What `bbp info` prints of a file: model, coordinates, origin, options, datasets with their dimensions."""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bbp.analysis import summary
from bbp.analysis.estimates import ranged
from bbp.console import program
from bbp.console.messages import FileError, duration
from bbp.engine.parts import Parts
from bbp.engine.run import Result, Results
from bbp.experiments import models
from bbp.files import dataset, product
from bbp.files.variables import DONE, FAILED, NOT_RUN


def run(args: argparse.Namespace) -> int:
    """Describe the file on stdout."""
    path = Path(args.file)
    if not path.exists() and Parts(path).exist():
        program.show(_unfinished(path, Parts(path)))
        return program.OK
    if path.name.endswith(Parts.ENDING) and path.is_dir():
        whole = str(path).removesuffix(Parts.ENDING)
        raise FileError(f"{args.file!r} is the directory of an unfinished run: bbp info {whole}")
    found = dataset.open(path)
    form, parts = found.attrs["format"], product.split(found)
    if form != dataset.SWEEP and (args.table or args.json):
        raise FileError(f"{args.file!r} is a {form} file: --table and --json are for sweeps")
    if args.json:
        print(json.dumps([dataset.config(part) for part in parts], indent=1))
        return program.OK
    program.show("\n\n".join([*(about(part) for part in parts), "\n".join(listed(found))]))
    if args.table:
        program.show("\n" + "\n\n".join(summary.table(sweep) for sweep in parts))
    return program.OK


def _unfinished(path: Path, parts: Parts) -> str:
    plan, results = parts.read_plan(), Results()
    for part in parts.load():
        # How each sample ended alone: of parts that nobody has checked nothing else is known.
        part["columns"] = {"status": part["columns"]["status"]}
        results.add(Result(**part))
    return (
        f"{str(path)!r}, a {plan['experiment']}, is not written yet: {results.samples} samples in"
        f" {len(results.units)} units are kept in {str(parts.path)!r}, {results.failed} failed"
    )


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
    "Conventions",
    "config",
}
_MODEL = ("p", "p_star", "a", "alpha_bbp", "kind")


def about(found: xr.Dataset) -> str:
    """The lines about a result of one model: labels in one column, text in the next."""
    attributes, config = found.attrs, dataset.config(found)
    lines = {"format": f"{attributes['format']}, version {attributes.get('format_version')}"}
    lines |= _model(attributes, config)
    named = {"figure": attributes.get("figure"), "claim": attributes.get("caption")}
    lines |= {name: text for name, text in named.items() if text}
    lines |= {str(name): _coordinate(found[name].values) for name in found.coords}
    lines |= _samples(found)
    others = sorted(set(attributes) - _KNOWN - set(_MODEL) - {"figure", "caption"})
    lines |= {name: str(attributes[name]) for name in others}
    lines |= _origin(found)
    given = {name: value for name, value in config.items() if value is not None}
    lines["options"] = ", ".join(f"{name} {_short(value)}" for name, value in given.items())
    return aligned(lines)


def listed(found: xr.Dataset) -> list[str]:
    """A line for each variable, with what it is over, its type and what it is."""
    rows = [("variable", "over", "type", "what it is")]
    for name, values in found.data_vars.items():
        dims = ", ".join(f"{dim} {length}" for dim, length in values.sizes.items())
        kind = "text" if values.dtype.kind in "OUT" else str(values.dtype)
        words = str(values.attrs.get("long_name", ""))
        rows.append((str(name), f"({dims})" if dims else "one value", kind, words))
    return ranged(rows)


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


def _samples(found: xr.Dataset) -> dict[str, str]:
    """How many samples there are of each kind, and why the first failed."""
    if "status" not in found or "sample" not in found.dims:
        return {}
    status = found.status.values
    done, failed, never = (np.sum(status == code) for code in (DONE, FAILED, NOT_RUN))
    lines = {"samples": f"{found.sizes['sample']} a point; {done} done, {failed} failed, {never} not run"}
    if failed:
        lines["first failure"] = str(found.reason.values[status == FAILED][0])
    return lines


def _origin(found: xr.Dataset) -> dict[str, str]:
    attributes = found.attrs
    lines = {"finished": "yes" if attributes.get("finished") else "no"}
    if attributes.keys() & {"created", "commit"}:
        when, commit = (attributes.get(name, "unknown") for name in ("created", "commit"))
        lines["written"] = f"{when} at commit {commit}"
    if "unit_seconds" in found:
        lines["computed in"] = f"{found.sizes['unit']} units, {duration(float(found.unit_seconds.sum()))}"
    elif isinstance(attributes.get("seconds"), float):
        lines["computed in"] = duration(attributes["seconds"])
    try:
        versions = json.loads(str(attributes.get("versions", "{}")))
    except (ValueError, RecursionError):
        versions = {}
    if isinstance(versions, dict) and versions:
        lines["versions"] = ", ".join(f"{name} {number}" for name, number in versions.items())
    return lines


def _coordinate(values: np.ndarray) -> str:
    if values.size <= MOST or values.dtype.kind in "OUT":
        return ", ".join(_number(value) for value in values[:20]) or "none"
    return f"{_number(values[0])} to {_number(values[-1])}, {values.size} values"


def _number(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.6g}" if math.isfinite(value) else str(float(value))
    return str(value)


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > MOST:
        return f"[{_number(value[0])}, ..., {_number(value[-1])}] ({len(value)})"
    text = json.dumps(value)
    return text if len(text) <= 2 * WIDE else f"{text[:WIDE]}..."
