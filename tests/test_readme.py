"""The Python examples of README, start page and guide print what they say; every program is described; what CONTRIBUTING
names is where it says."""

import doctest
import pkgutil
import re
from pathlib import Path

import pytest

from bbp.__main__ import COMMANDS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page, least", [("README.md", 3), ("docs/index.md", 12), ("docs/threshold.md", 6)])
def test_examples_run(page, least):
    found = doctest.testfile(str(ROOT / page), module_relative=False, encoding="utf-8")
    assert found.attempted >= least and found.failed == 0


def test_every_program_is_described():
    named = set(re.findall(r"`(?:bbp )?(\w+)`", (ROOT / "README.md").read_text()))
    described = set(re.findall(r"`bbp (\w+)", (ROOT / "docs" / "programs.md").read_text()))
    assert set(COMMANDS) <= named and set(COMMANDS) <= described


def test_the_oracles_are_where_the_readme_of_the_tests_says():
    here = Path(__file__).parent
    named = re.findall(r"`([a-z_/]+/\w+\.py)`", (here / "README.md").read_text())
    assert len(named) > 15
    assert [name for name in named if not (here / name).exists()] == []


def test_what_contributing_names_is_where_it_says():
    """Files, and names with dots; capitals stand for any name (bbp/NAME.py)."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:theory|sims|bbp|tests|docs)/[a-z_/.]*)`", text)
    dotted = re.findall(r"`((?:theory|sims|bbp)(?:\.\w+)+)`", text)
    assert len(paths) > 15 and len(dotted) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []
    for name in dotted:
        pkgutil.resolve_name(name)
