"""Docstrings of this project as restructured text.

They are plain text: paragraphs, indented formulas and tables, lists with `*`, columns "name   what it is", examples with
`>>>`. Paragraphs keep their words, `names` become links where the reference has them; whatever is set out in columns
stays as it stands.
"""

from __future__ import annotations

import re
import textwrap
from itertools import groupby

import reference

_COLUMNS = re.compile(r"^\S.{0,40}?\S? {2,}\S")
_SPECIAL = re.compile(r"([*_|\\])")


def process(app, what, name, obj, options, lines: list[str]) -> None:
    """Sphinx's hook: replace `lines` in place. Fields of named tuples, which have no words of their own, stay bare."""
    del app, what, options, obj
    if len(lines) == 1 and lines[0].startswith("Alias for field number"):
        lines[:] = []
        return
    lines[:] = converted("\n".join(lines), name.rsplit(".", 1)[0]).splitlines()


def converted(text: str, module: str = "") -> str:
    """A docstring as restructured text.

    >>> print(converted("The edge.\\n\\n    1/g = z\\n\\nA list `x`."))
    The edge.
    <BLANKLINE>
    ::
    <BLANKLINE>
        1/g = z
    <BLANKLINE>
    A list ``x``.
    <BLANKLINE>
    """
    out: list[str] = []
    for kind, rows in _blocks(text.strip().splitlines()):
        if kind == "example":
            out += [*rows, ""]
        elif kind == "item":
            out += ["* " + _inline(_joined(rows)[2:], module), ""]
        elif kind == "plain":
            out += [_inline(_joined(rows), module), ""]
        else:
            out += ["::", "", textwrap.indent(textwrap.dedent("\n".join(rows)), "    "), ""]
    return "\n".join(out)


def _joined(rows: list[str]) -> str:
    return " ".join(row.strip() for row in rows)


def _blocks(rows: list[str]):
    """(kind, rows) of each paragraph; runs of set-out paragraphs are one."""
    found = []
    for blank, group in groupby(rows, key=lambda row: not row.strip()):
        if not blank:
            found += _split(list(group))
    for set_out, group in groupby(found, key=lambda block: block[0] == "set out"):
        if not set_out:
            yield from group
            continue
        joined: list[str] = []
        for _, part in group:
            joined += ["", *part] if joined else part
        yield "set out", joined


def _split(rows: list[str]) -> list[tuple[str, list[str]]]:
    """One paragraph in parts of one kind."""
    if rows[0].startswith(">>>"):
        return [("example", rows)]
    if rows[0].startswith("* "):
        items: list[tuple[str, list[str]]] = []
        for row in rows:
            if row.startswith("* "):
                items.append(("item", [row]))
            else:
                items[-1][1].append(row)
        return items
    if any(_COLUMNS.match(row) or row.startswith("  ") for row in rows):
        index = next(i for i, row in enumerate(rows) if row.startswith(" ") or _COLUMNS.match(row))
        head = [("plain", rows[:index])] if index else []
        return [*head, ("set out", rows[index:])]
    return [("plain", rows)]


def _inline(text: str, module: str) -> str:
    """Words of a paragraph: `code` as a link or literal, the rest with its special characters escaped."""
    parts = re.split(r"``?([^`]+)``?", text)
    for index, part in enumerate(parts):
        if index % 2:
            target = reference.resolve(part, module)
            parts[index] = f":py:obj:`{part} <{target}>`" if target else f"``{part}``"
        else:
            parts[index] = _SPECIAL.sub(r"\\\1", part)
    return "".join(_spaced(parts))


def _spaced(parts: list[str]) -> list[str]:
    """Inline markup must stand apart from letters before and after it: an escaped blank, which is not shown, does that."""
    for index in range(1, len(parts), 2):
        if parts[index - 1] and parts[index - 1][-1].isalnum():
            parts[index] = "\\ " + parts[index]
        if parts[index + 1] and (parts[index + 1][0].isalnum() or parts[index + 1][0] == "("):
            parts[index] += "\\ "
    return parts
