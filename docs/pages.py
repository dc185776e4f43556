"""Pages and parts of pages that are made from the code: file layouts, gallery, programs, reference."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import reference

from bbp import gallery as figures
from bbp import plot
from bbp.__main__ import COMMANDS
from bbp.analysis import comparison
from bbp.console.program import Parser
from bbp.experiments import descent, phase, sweep
from bbp.files import dataset, variables


def write(docs: Path) -> None:
    """Everything generated, under docs/_generated."""
    out = docs / "_generated"
    (out / "include").mkdir(parents=True, exist_ok=True)
    reference.write(out / "api")
    _put(out / "include" / "programs.md", programs())
    _put(out / "include" / "layouts.md", layouts())
    _put(out / "include" / "more.md", more(docs))
    (out / "notebooks").mkdir(exist_ok=True)
    for page in executed(docs):
        _put(out / "notebooks" / f"{page.stem}.ipynb", notebook(page))
    gallery(docs.parent / "data" / "figures", out / "gallery")


def more(docs: Path) -> str:
    """A table of contents of the pages that the start page does not name, so that a new page is found from the first day."""
    start = (docs / "index.md").read_text().split()
    pages = sorted(
        page.relative_to(docs).with_suffix("") for page in (*docs.glob("*.md"), *docs.glob("tutorials/*.md"))
    )
    left = [str(page) for page in pages if str(page) not in (*start, "index")]
    return "\n".join(["```{toctree}", ":hidden:", ":caption: More", "", *left, "```", ""]) if left else "\n"


def executed(docs: Path) -> list[Path]:
    """The pages whose cells are run while the site is built."""
    pages = (*docs.glob("*.md"), *docs.glob("tutorials/*.md"))
    return [page for page in pages if page.read_text().startswith("---\nfile_format: mystnb")]


def notebook(page: Path) -> str:
    """An executed page as a notebook of Jupyter, without outputs: roles of Sphinx are plain words, cells have fixed names."""
    # what the site is built with, which those who only test need not have
    reader, nbformat = (importlib.import_module(name) for name in ("myst_nb.core.read", "nbformat"))
    made = reader.read_myst_markdown_notebook(page.read_text())
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number}"
        if cell.cell_type == "markdown":
            cell.source = _ROLE.sub(lambda role: role["words"].strip(), cell.source)
    return nbformat.writes(made) + "\n"


_ROLE = re.compile(r"\{[a-z:]+\}`(?P<words>[^`<]+?)( *<[^>`]*>)?`")


def offer_notebook(app: Any, name: str, source: list[str]) -> None:
    """Give an executed page a link to its notebook, below its title."""
    page = Path(app.srcdir) / f"{name}.md"
    if page in executed(Path(app.srcdir)):
        link = f"{{download}}`This page as a notebook </_generated/notebooks/{page.stem}.ipynb>`"
        source[0] = re.sub(r"(?m)^(# .*)$", rf"\1\n\n{link}", source[0], count=1)


def programs() -> str:
    """Every program: its words, its examples, and each option with a target of its own, all from its parser."""
    parts = []
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"bbp.{name}")
        parser = Parser(prog=f"bbp {name}")
        module.add_arguments(parser)
        words = inspect.cleandoc(getattr(module, "SUMMARY", module.__doc__)).partition("\n\n")[2]
        parts += [f"## bbp {name}", "", f"{summary[0].upper()}{summary[1:]}.", "", _markdown(words), ""]
        parts += [
            "```text",
            textwrap.dedent(module.EXAMPLE).rstrip(),
            "```",
            "",
            f"```{{program}} bbp {name}",
            "```",
            "",
        ]
        for group in parser._action_groups:
            actions = [action for action in group._group_actions if action.dest != "help"]
            if actions and group.title not in ("options", "positional arguments"):
                parts += [f"**{str(group.title).capitalize()}**", ""]
            for action in actions:
                parts += [f"````{{option}} {_written(action)}", _help(action), "````", ""]
    return "\n".join(parts)


def _written(action: argparse.Action) -> str:
    """An argument as it is typed: --n N, -o FILE, FILE.h5."""
    value = action.metavar or action.dest.upper()
    if not action.option_strings:
        return str(value)
    if action.nargs == 0:
        return ", ".join(action.option_strings)
    shown = f"[{value}]" if action.nargs == "?" else str(value)
    return ", ".join(f"{text} {shown}" for text in action.option_strings)


def _help(action: argparse.Action) -> str:
    words = (action.help or "") % {**vars(action), "prog": "bbp"}
    return _markdown(words)


def _markdown(text: str) -> str:
    """Plain words as Markdown: options as code, and what would be markup as it stands."""
    parts = re.split(r"(--[a-z][a-z-]*)", text)
    parts[::2] = [re.sub(r"([\\*_<>\[\]{}$`|#~])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"`{part}`" for part in parts[1::2]]
    return "".join(parts)


def layouts() -> str:
    """What every kind of file holds, from the modules that make them, and the words of every variable."""
    told = {
        "Sweep": (dataset.SWEEP, sweep),
        "Descents": (dataset.DESCENT, descent),
        "Phase diagram": (dataset.PHASE, phase),
        "Figure": (dataset.FIGURE, figures),
    }
    parts = []
    for title, (form, module) in told.items():
        parts += [
            f"### {title}: `{form}`",
            "",
            "```text",
            inspect.cleandoc(module.__doc__ or ""),
            "```",
            "",
        ]
    returns = (
        inspect.cleandoc(comparison.compare.__doc__ or "")
        .partition("xarray.Dataset\n")[2]
        .partition("\n\n")[0]
    )
    parts += [f"### Comparison: `{comparison.FORMAT}`", "", inspect.cleandoc(returns), ""]
    parts += ["### Variables", "", "| variable | what it is |", "|---|---|"]
    parts += [
        f"| `{name}` | {words} |".replace("*", "\\*") for name, words in sorted(variables.WORDS.items())
    ]
    return "\n".join([*parts, ""])


def gallery(data: Path, out: Path) -> None:
    """A page with every figure of `bbp figures`, drawn from the stored data: caption, command, datasets."""
    out.mkdir(parents=True, exist_ok=True)
    parts = []
    for name, entry in figures.ENTRIES.items():
        source = data / f"{name}.h5"
        found = dataset.open(source)
        config = dataset.config(found)
        picture = out / f"{name}.png"
        if not picture.exists() or picture.stat().st_mtime < source.stat().st_mtime:
            plot.main([str(source), "--out", str(picture), "--dpi", "150", "--force", "--quiet"])
        held = ", ".join(
            f"`{key}` ({', '.join(map(str, values.dims))})" for key, values in found.variables.items()
        )
        parts += [f"## {name}", "", f"![{name}](_generated/gallery/{name}.png)", "", entry.caption, ""]
        parts += ["```sh", f"bbp figures {name} --out figures", "```", ""]
        parts += [
            f"Data: `data/figures/{name}.h5` ({config['mode']} mode, seed {config['seed']}): {held}.",
            "",
        ]
    _put(out.parent / "include" / "gallery.md", "\n".join(parts))


def _put(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
