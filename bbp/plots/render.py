"""A figure as the bytes of a picture: png, pdf, svg, eps or pgf."""

from __future__ import annotations

import functools
import io
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import Collection
from matplotlib.colors import to_rgba, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bbp.console.messages import RunError
from bbp.plots import layout, style
from theory.checks import ParameterError

# No dates: the same file gives the same picture, byte for byte.
METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "eps": {"Creator": ""},
    "pgf": {},
}
_DATED = re.compile(rb"^%%(CreationDate|Creator|Title):.*\n", re.MULTILINE)  # of an .eps


def render(figure: Figure, form: str, dpi: float) -> bytes:
    """The bytes of a figure in the format "png", "pdf", "svg", "eps" or "pgf"; dpi is used by png.

    eps knows no transparency: colours are blended with the paper. pgf needs a LaTeX, which measures its words: RunError where
    there is none.
    """
    buffer = io.BytesIO()
    quiet = logging.getLogger("matplotlib.backends.backend_ps")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with style.figure_style(), _opaque(figure) if form == "eps" else nullcontext():
            layout.settle_ticks(figure)
            more: dict[str, Any] = {"metadata": METADATA[form]} if METADATA[form] else {}  # pgf takes none
            figure.savefig(buffer, format=form, dpi=dpi, **more)
    except _latex_failures() as error:
        if form != "pgf":
            raise
        raise RunError(
            f".pgf needs {mpl.rcParams['pgf.texsystem']} to measure its words, and that failed: {str(error).splitlines()[0]}"
        ) from None
    finally:
        quiet.setLevel(level)
    return _DATED.sub(b"", buffer.getvalue()) if form == "eps" else buffer.getvalue()


def _latex_failures() -> tuple[type[Exception], ...]:
    """What the pgf backend raises where LaTeX fails: looked up then, for its import takes a third of a second."""
    from matplotlib.backends.backend_pgf import LatexError

    return FileNotFoundError, RuntimeError, LatexError


def form_of(path: Path) -> str:
    """The format that the extension of `path` names; ParameterError for any but png, pdf, svg, eps and pgf."""
    form = path.suffix.lower().removeprefix(".")
    if form not in METADATA:
        raise ParameterError(f"out must end in .png, .pdf, .svg, .eps or .pgf, got {str(path)!r}")
    return form


@contextmanager
def _opaque(figure: Figure) -> Iterator[None]:
    """Context in which nothing of a figure is transparent: colours are blended with what lies behind, axes or paper."""
    kept: list[Callable[[], object]] = []
    for artist in figure.findobj(lambda one: isinstance(one, Collection | Patch | Line2D)):
        drawn: Any = artist
        alpha, line = drawn.get_alpha(), isinstance(drawn, Line2D)
        paper = to_rgba(drawn.axes.get_facecolor() if drawn.axes is not None else figure.get_facecolor())
        paper = paper if paper[3] == 1 else to_rgba("white")
        for name in ("color",) if line else ("facecolor", "edgecolor"):
            old = getattr(drawn, f"get_{name}")()
            own = to_rgba_array(old, alpha if line else None)
            share = own[:, 3:]
            if not ((share > 0) & (share < 1)).any():
                continue
            put = getattr(drawn, f"set_{name}")
            kept += [functools.partial(put, old), functools.partial(drawn.set_alpha, alpha)]
            mixed = share * own[:, :3] + (1 - share) * np.array(paper[:3])
            drawn.set_alpha(None)
            whole = np.concatenate([mixed, np.ceil(share)], axis=1)  # what is not drawn at all stays so
            put(tuple(whole[0]) if len(whole) == 1 else whole)
    try:
        yield
    finally:
        for back in reversed(kept):
            back()
