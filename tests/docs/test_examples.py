"""What the pages tell users to type: every command is one its program takes, every name of a piece of Python is there.

Pieces run elsewhere: doctests in tests/test_readme.py, tutorials when the site is built.
"""

import ast
import builtins
import importlib
import re
import shlex
import tomllib
from pathlib import Path

from bbp.__main__ import COMMANDS
from bbp.console import options, program
from bbp.experiments.options import SWEEP

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "data" / "README.md"])
# What the prose around a page's Python gives: a model, sizes and the like.
GIVEN = {"model", "n", "alpha", "alphas", "x", "width"}
COMMAND = re.compile(r"`bbp (\w+ [^`\n]+)`|^(?:    )?(?:there:   )?bbp (\w+.*)$", re.MULTILINE)
PYTHON = re.compile(r"^```python\n([\s\S]*?)^```|((?:^    .*\n|^\n)+)", re.MULTILINE)


def commands():
    """Words of each command line, without comments and with grids for the shell's variables, and its page."""
    for page in PAGES:
        for match in COMMAND.finditer(page.read_text()):
            line = re.split(r"\s#|\s\||\s&$", match[1] or match[2])[0]
            words = shlex.split(re.sub(r"\$[CD]\b", "1:2:3", line), comments=True)
            if words[0] in COMMANDS and not words[-1].startswith("--"):  # an option alone is only named
                yield words, page.name


def test_every_command_of_the_pages_is_taken(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(program, "guarded", lambda *args, **options: 0)  # read, not carried out
    refused = []
    told = list(commands())
    for words, page in told:
        if importlib.import_module(f"bbp.{words[0]}").main(words[1:]):
            refused.append((page, words, capsys.readouterr().err))
    assert len(told) > 50 and not refused


def pieces(page):
    """Python of a page that is no doctest: fenced, or indented and plainly Python."""
    for match in PYTHON.finditer(page.read_text()):
        text = match[1] or "".join(line[4:] or "\n" for line in match[2].splitlines(keepends=True))
        if ">>>" not in text and re.search(r"^(from \w\S* )?import |^store\.", text, re.MULTILINE):
            yield ast.parse(text)


def test_python_of_the_pages_uses_names_that_exist():
    seen = 0
    for page in PAGES:
        known = GIVEN | set(dir(builtins))
        for tree in pieces(page):
            seen += 1
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in (
                    "theory",
                    "sims",
                    "bbp",
                ):
                    module = importlib.import_module(node.module)
                    for name in node.names:
                        assert hasattr(module, name.name) or importlib.import_module(
                            f"{node.module}.{name.name}"
                        )
                if isinstance(node, ast.Import | ast.ImportFrom):
                    known |= {name.asname or name.name.partition(".")[0] for name in node.names}
            names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
            known |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
            assert {node.id for node in names} <= known, page.name
    assert seen > 8


def test_options_in_toml_are_read(tmp_path):
    """Every sweep.toml of the pages has names and values that the sweep takes."""
    seen = 0
    for page in PAGES:
        for text in re.findall(r"^```toml\n([\s\S]*?)^```", page.read_text(), re.MULTILINE):
            (tmp_path / "sweep.toml").write_text(text)
            found = options.checked(SWEEP, options.read_toml(tmp_path / "sweep.toml", SWEEP))
            assert found["alpha_grid"], page.name
            seen += 1
    assert seen


def test_extras_that_are_named_exist():
    kept = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [
        extra
        for page in PAGES
        for several in re.findall(r"(?:hessian-bbp|\.)\[([a-z,]+)\]", page.read_text())
        for extra in several.split(",")
    ]
    assert named and set(named) <= set(kept)
