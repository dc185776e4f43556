"""A model as plain data, in records, parts and files; the only place that turns one into the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bbp.files import layout
from theory.model import Committee


def build(record: Mapping[str, Any]) -> Committee:
    """The model of a record or of a file's attributes; ValueError, KeyError or ParameterError if it has none."""
    return Committee(*(layout.number(record, name) for name in ("p", "p_star", "a")))


def record(model: Committee) -> dict[str, Any]:
    """The model as plain data, from which `build` makes it again."""
    return {"p": model.p, "p_star": model.p_star, "a": model.a}
