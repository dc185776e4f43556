"""Pages and parts of pages that are made from the code: file layouts, gallery, programs, reference."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import reference

from bbp import plot, store
from bbp.analysis import comparison_file
from bbp.console.program import COMMANDS, Parser
from bbp.experiments import descent_file, phase_file
from bbp.gallery import base
from bbp.gallery.entries import ENTRIES


def write(docs: Path) -> None:
    """Everything generated, under docs/_generated."""
    out = docs / "_generated"
    (out / "include").mkdir(parents=True, exist_ok=True)
    reference.write(out / "api")
    _put(out / "include" / "programs.md", programs())
    _put(out / "include" / "layouts.md", layouts())
    _put(out / "include" / "more.md", more(docs))
    gallery(docs.parent / "data" / "figures", out / "gallery")


def more(docs: Path) -> str:
    """A table of contents of the pages that the start page does not name, so that a new page is found from the first day."""
    start = (docs / "index.md").read_text().split()
    pages = sorted(
        page.relative_to(docs).with_suffix("") for page in (*docs.glob("*.md"), *docs.glob("tutorials/*.md"))
    )
    left = [str(page) for page in pages if str(page) not in (*start, "index")]
    return "\n".join(["```{toctree}", ":hidden:", ":caption: More", "", *left, "```", ""]) if left else "\n"


def programs() -> str:
    """Every command with its help text."""
    parts = []
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"bbp.{name}")
        parser = Parser(prog=f"bbp {name}")
        module.add_arguments(parser)
        parts += [f"## bbp {name}", "", f"{summary[0].upper()}{summary[1:]}.", "", "```text"]
        parts += [parser.format_help().rstrip(), "```", ""]
    return "\n".join(parts)


def layouts() -> str:
    """The datasets of every kind of file, from the fields that the programs themselves write and check."""
    parts = []
    for title, module in (
        ("Sweep", store),
        ("Descents", descent_file),
        ("Phase diagram", phase_file),
        ("Comparison", comparison_file),
    ):
        parts += [f"### {title}: `{module.FORMAT}`, version {module.VERSION}", "", _head(module), ""]
        parts += ["| dataset | over | type | what it is |", "|---|---|---|---|"]
        for group, axes, fields in module.TABLES:
            rows = [(axis.name, "itself", axis.dtype, axis.words or "coordinate") for axis in axes]
            rows += [(field.place, ", ".join(field.dims), field.dtype, field.words) for field in fields]
            parts += [
                f"| `/{group}{name}` | {dims} | {_kind(dtype)} | {words} |"
                for name, dims, dtype, words in rows
            ]
        parts.append("")
    text = inspect.cleandoc(base.__doc__ or "")
    parts += [f"### Figure: `{base.FORMAT}`, version {base.VERSION}", "", "```text", text, "```", ""]
    return "\n".join(parts)


def _head(module) -> str:
    """The first paragraph of a module's docstring, on one line."""
    return " ".join(inspect.cleandoc(module.__doc__ or "").split("\n\n")[0].split()).replace("*", "\\*")


def _kind(dtype: str) -> str:
    return {"f8": "float64", "i8": "int64", "i1": "int8", "O": "text"}[dtype]


def gallery(data: Path, out: Path) -> None:
    """A page with every figure of `bbp figures`, drawn from the stored data: caption, command, datasets."""
    out.mkdir(parents=True, exist_ok=True)
    parts = []
    for name, entry in ENTRIES.items():
        source = data / f"{name}.h5"
        found, config = base.load(source)
        picture = out / f"{name}.png"
        if not picture.exists() or picture.stat().st_mtime < source.stat().st_mtime:
            plot.main([str(source), "--out", str(picture), "--dpi", "150", "--force", "--quiet"])
        held = ", ".join(f"`{key}` ({', '.join(dims)})" for key, (dims, _) in found.arrays.items())
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
