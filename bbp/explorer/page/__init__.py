"""The page itself: HTML, style and script, filled with a state. One page serves the live explorer and the exported file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from bokeh.document import Document
from jinja2 import Environment, Template

from bbp.explorer.figures import PHASE_COLOURS
from bbp.explorer.files import UPLOAD
from bbp.explorer.state import CONTROLS, OPTIONS, WIDTHS, Control, State, text_of

LIVE_SCRIPT = '<script defer src="static/js/bokeh.min.js"></script>'


def fill(
    doc: Document,
    state: State,
    words: Mapping[str, str],
    notice: str = "",
    *,
    bokeh_script: str = LIVE_SCRIPT,
    controls: Sequence[Control] = CONTROLS,
    widths: Sequence[float] = WIDTHS,
    holds: Sequence[str] = (),
) -> None:
    """Give `doc` the page as its template.

    bokeh_script  how BokehJS comes
    holds         what an exported page holds, in sentences; none on a live page
    """
    doc.template = template()
    doc.title = "Hessian BBP explorer"
    doc.template_variables.update(
        css=text("page.css"),
        early=text("early.js"),
        hasten=text("hasten.js"),
        script=script(state, controls, widths),
        bokeh_script=bokeh_script,
        controls=controls,
        options=[control.name for control in OPTIONS],
        opened=any(state.changed(control) for control in OPTIONS),
        state=state.values(),
        words=words,
        notice=notice,
        colours=PHASE_COLOURS,
        live=not holds,
        holds=holds,
    )


@lru_cache
def template() -> Template:
    """page.html as a Jinja template; texts from outside are escaped where they stand."""
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text("page.html"))


@lru_cache
def text(name: str) -> str:
    """A file of this folder."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def script(state: State, controls: Sequence[Control], widths: Sequence[float]) -> str:
    """page.js with the table of controls and the first state in it."""
    values: dict[str, Any] = {
        "__CONTROLS__": [control.described() for control in controls],
        "__WIDTHS__": [text_of(width) for width in widths],
        "__STATE__": state.values(),
        "__UPLOAD__": UPLOAD,
    }
    code = text("page.js")
    for name, value in values.items():
        code = code.replace(name, json.dumps(value).replace("</", "<\\/"))
    return code
