"""Text on its way to a reader: in one line, of bounded length, and without a character that commands a terminal."""

from __future__ import annotations

import re

LONGEST = 600  # of a message
LONGEST_WORD = 200  # of one unbroken run in it: a value that someone gave
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: object) -> str:
    r"""`text` with control characters spelled out (ESC as \x1b), lines and tabs kept: what a file holds may be hostile.

    >>> plain("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return _COMMANDS.sub(lambda found: ascii(found.group())[1:-1], str(text))


def one_line(text: object) -> str:
    """`text` in one plain line, long values in it and the whole shortened in their middle."""
    words = [_shortened(word, LONGEST_WORD) for word in str(text)[: 100 * LONGEST].split()]
    return plain(_shortened(" ".join(words), LONGEST))


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    kept = most // 2 - 2
    return f"{text[:kept]}...{text[-kept:]}"
