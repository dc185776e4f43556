"""The README's Python examples print what it says; its programs exist."""

import doctest
import re
from pathlib import Path

from bbp.console.program import COMMANDS

README = Path(__file__).parents[1] / "README.md"


def test_examples_run():
    found = doctest.testfile(str(README), module_relative=False)
    assert found.attempted >= 10 and found.failed == 0


def test_every_program_is_described():
    described = set(re.findall(r"`bbp (\w+)", README.read_text()))
    assert set(COMMANDS) <= described


def test_the_oracles_are_where_the_readme_of_the_tests_says():
    here = Path(__file__).parent
    named = re.findall(r"`([a-z_/]+/\w+\.py)`", (here / "README.md").read_text())
    assert len(named) > 15
    assert [name for name in named if not (here / name).exists()] == []
