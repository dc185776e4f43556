"""docs/notation.md: every name it gives exists."""

import importlib
import re
from functools import reduce
from pathlib import Path

NOTATION = Path(__file__).parents[1] / "docs" / "notation.md"


def resolved(name):
    """The object of a dotted name: the longest part that can be imported, then attributes."""
    words = name.split(".")
    for end in range(len(words), 0, -1):
        try:
            return reduce(getattr, words[end:], importlib.import_module(".".join(words[:end])))
        except ModuleNotFoundError:
            continue
    raise AttributeError(name)


def test_every_name_of_the_dictionary_exists():
    names = set(re.findall(r"`(theory\.[\w.]+)`", NOTATION.read_text(encoding="utf-8")))
    assert len(names) > 30
    for name in names:
        assert resolved(name) is not None


def test_a_name_that_is_not_there_is_seen():
    try:
        resolved("theory.exact.averages.edge")
    except AttributeError:
        return
    raise AssertionError
