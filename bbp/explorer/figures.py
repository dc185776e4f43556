"""The figures of the page and everything in them that changes, by name.

Colours are those of `bbp.plots.style` (Okabe and Ito); the page itself sets ink, grids and background for light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bokeh.document import Document
from bokeh.events import DocumentReady, Tap
from bokeh.models import (
    CDSView,
    ColumnDataSource,
    CustomJS,
    FixedTicker,
    GroupFilter,
    HoverTool,
    LinearColorMapper,
    Range1d,
)
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from bbp.explorer.answer import COLUMNS, Answer, empty, row_names
from bbp.explorer.curves import A_RANGE
from bbp.explorer.state import WIDTHS
from bbp.plots import style

LINES = (
    "edge",
    "zoom_edge",
    "quenched_edge",
    "lowest_here",
    "lowest_bbp",
    "recovery_here",
    "recovery_bbp",
    "recovery_zero",
)
HEIGHT = 290  # pixels
STANDOFF = 24, 62  # pixels between the axes and their labels, where the numbers stand
TINY = 80  # where they may be as long as 1.000e-8
PHASE_COLOURS = ("#D9DBDD", style.ORANGE, style.SKY, style.PURPLE)
SHAPES = ("square", "circle", "triangle", "diamond", "inverted_triangle", "hex")  # of sizes N in a file
ALIKE = "alike"  # tag of glyphs whose marks differ in place only: squares without fill, and bars
DASHED = {"line_color": style.GREY, "line_dash": [6, 3], "line_width": 1.5}
INK = "ink"  # tag of what the page draws in its own ink, black on white or white on black


@dataclass(frozen=True)
class Board:
    """Figures, sources and lines by name."""

    figures: dict[str, Any]
    sources: dict[str, ColumnDataSource]
    lines: dict[str, Span]

    def show(self, found: Answer) -> None:
        """Put a first answer on the figures; later ones are put there by the page's own script."""
        for name, columns in found.sources.items():
            self.sources[name].data = dict(columns)
        for name, place in found.lines.items():
            self.lines[name].update(visible=place is not None, location=place or 0.0)
        for name, (left, right, low, high) in found.axes.items():
            panel = self.figures[name]
            panel.x_range.update(start=left, end=right, reset_start=left, reset_end=right)
            panel.y_range.update(start=low, end=high, reset_start=low, reset_end=high)

    def attach(self, doc: Document, code: str, **more: ColumnDataSource) -> None:
        """Put the figures into a document whose page runs `code` with figures, sources, lines and more, once it is there."""
        for panel in self.figures.values():
            doc.add_root(panel)
        # Sources that no figure draws travel with the document through this callback.
        self.figures["phases"].tags = [*more.values(), *self.sources.values()]
        args = {name: list(getattr(self, name).values()) for name in ("figures", "sources", "lines")}
        doc.js_on_event(DocumentReady, CustomJS(args=args | more, code=code))


def board(widths: Sequence[float] = WIDTHS, *, live: bool = True) -> Board:
    """The figures, empty; `widths` are the rows of the phase diagram; a live page has one of a sweep file's quantities."""
    sources = {name: ColumnDataSource(empty(name), name=name) for name in COLUMNS}
    lines = {name: Span(location=0.0, dimension="height", visible=False, name=name) for name in LINES}
    figures = {
        "spectrum": _spectrum(sources, lines, zoom=False),
        "zoom": _spectrum(sources, lines, zoom=True),
        "lowest": _over_alpha(sources, lines, "lowest", "eigenvalue λ", "lowest", "λ"),
        "recovery": _over_alpha(sources, lines, "recovery", "squared overlap q²", "overlap", "q²"),
        "phases": _phases(sources, widths),
    }
    if live:
        seen = {
            "path": ("lowest", "lowest_theory", "edge"),
            "path_overlap": ("overlap", "overlap_theory", "m2"),
        }
        figures["quantity"] = _quantity(sources["quantity"])
        figures["path"] = _path(sources, "path", "eigenvalue λ", seen["path"])
        figures["path_overlap"] = _path(sources, "path_overlap", "squared overlap", seen["path_overlap"])
    for name in ("lowest", "recovery", "phases"):
        figures[name].js_on_event(
            Tap, CustomJS(args={"name": name}, code="bbp.tapped(name, cb_obj.x, cb_obj.y)")
        )
    return Board(figures, sources, lines)


def _panel(name: str, x_label: str, y_label: str, **more: Any) -> Any:
    panel: Any = figure(
        name=name,
        height=HEIGHT,
        sizing_mode="stretch_width",
        x_range=Range1d(start=0, end=1),
        y_range=Range1d(start=0, end=1),
        tools="pan,box_zoom,wheel_zoom,reset",
        active_drag=None,
        active_scroll=None,
        toolbar_location="above",
        toolbar_sticky=False,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_left=56,
        min_border_right=12,
        **more,
    )
    panel.toolbar.logo = None
    panel.xaxis.axis_label, panel.yaxis.axis_label = x_label, y_label
    for axis in (panel.xaxis, panel.yaxis):
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = "13px"
        axis.major_label_text_font_size = "12px"
        # Counted from the axis, not from its numbers: these then change width without a new layout of the whole figure.
        axis.axis_label_standoff_mode = "axis"
    panel.xaxis.axis_label_standoff, panel.yaxis.axis_label_standoff = STANDOFF
    return panel


def _hover(panel: Any, renderers: list[Any], *tips: tuple[str, str]) -> Any:
    """The panel, with what it says where one points at these."""
    panel.add_tools(HoverTool(tooltips=list(tips), mode="mouse", renderers=renderers))
    return panel


def _dots(
    panel: Any,
    x: str,
    y: str,
    source: Any,
    marker: str,
    size: int,
    fill: str | None,
    line: str | None = None,
    width: float = 1,
) -> Any:
    return panel.scatter(
        x, y, source=source, marker=marker, size=size, fill_color=fill, line_color=line, line_width=width
    )


def _upright(panel: Any, line: Span, **look: Any) -> None:
    line.update(**look)
    panel.add_layout(line)


def _spectrum(sources: Mapping[str, Any], lines: Mapping[str, Span], zoom: bool) -> Any:
    height = "zoom_height" if zoom else "height"
    panel = _panel("zoom" if zoom else "spectrum", "eigenvalue λ", "density ρ(λ)")
    bars = {"fill_color": style.SKY, "fill_alpha": 0.35 if zoom else 0.5, "line_color": None}
    histogram = sources["zoom_histogram" if zoom else "histogram"]
    panel.quad(left="left", right="right", bottom=0, top="top", source=histogram, **bars)
    curve = panel.line("lam", "rho", source=sources["zoom" if zoom else "density"], line_width=2, tags=[INK])
    if zoom:
        panel.yaxis.axis_label_standoff = TINY
    else:
        atom = sources["atom"]
        panel.segment("lam", "rho", "lam", "top", source=atom, line_color=style.PURPLE, line_width=3)
        words = {"text_color": style.PURPLE, "text_font_size": "12px", "text_baseline": "top"}
        panel.text("lam", "top", "text", source=atom, **words)
    mark = _dots(panel, "lam", height, sources["outlier"], "triangle", 15, style.VERMILION)
    _dots(panel, "lam", height, sources["quenched"], "inverted_triangle", 13, None, style.GREEN, 2.5)
    panel.segment("lam", 0, "lam", height, source=sources["sample"], line_width=2, tags=[INK])
    _upright(panel, lines["zoom_edge" if zoom else "edge"], **DASHED)
    if zoom:
        _upright(panel, lines["quenched_edge"], line_color=style.GREEN, line_dash=[2, 3], line_width=2)
    return _hover(panel, [curve, mark], ("λ", "@lam{0.0000}"), ("ρ", "@rho{0.0000}"))


def _over_alpha(
    sources: Mapping[str, Any], lines: Mapping[str, Span], name: str, label: str, column: str, tip: str
) -> Any:
    """Theory at N = infinity, the finite-N curve of a column with its band, drawn samples, and points of a sweep file."""
    panel = _panel(name, "α = M/N", label)
    branch, finite, sweep = sources["branch"], sources["finite"], sources["sweep"]
    shown = (
        [panel.line("alpha", "edge", source=branch, line_width=2, tags=[INK])] if column == "lowest" else []
    )
    outlier = "outlier" if column == "lowest" else column
    shown.append(panel.line("alpha", outlier, source=branch, line_width=2.5, line_color=style.VERMILION))
    # On the canvas above: where it alone moves, curves and points need not be painted anew.
    _upright(panel, lines[f"{name}_here"], line_width=1.5, tags=[INK], level="overlay")
    _upright(panel, lines[f"{name}_bbp"], **DASHED)
    if column == "overlap":
        _upright(panel, lines["recovery_zero"], line_color=style.PURPLE, line_dash=[2, 3], line_width=2)
    low, high = f"{column}_low", f"{column}_high"
    panel.varea("alpha", low, high, source=finite, fill_color=style.GREEN, fill_alpha=0.22)
    green = {"line_color": style.GREEN, "line_width": 2, "line_dash": [7, 2]}
    shown.append(panel.line("alpha", column, source=finite, **green))
    shown.append(_dots(panel, "alpha", column, sources["drawn"], "diamond", 12, style.BLUE))
    bars = panel.segment("alpha", low, "alpha", high, source=sweep, line_color=style.ORANGE, line_width=1)
    bars.glyph.tags = [ALIKE]
    return _hover(
        panel, [*shown, *_shapes(panel, sweep, column)], ("α", "@alpha{0.000}"), (tip, "$y{0.0000}")
    )


def _quantity(source: Any) -> Any:
    """Means over the samples of an open file of what the page's select says."""
    panel = _panel("quantity", "α = M/N", "mean over samples")
    panel.segment("alpha", "low", "alpha", "high", source=source, line_width=1, line_color=style.ORANGE)
    tips = ("α", "@alpha{0.000}"), ("N", "@n"), ("", "@value")
    return _hover(panel, _shapes(panel, source, "value"), *tips)


def _shapes(panel: Any, source: Any, name: str) -> list[Any]:
    """Points of a sweep file, each N a shape of its own: open ones first, then the same filled."""
    drawn = []
    for shape in range(2 * len(SHAPES)):
        marker, filled = SHAPES[shape % len(SHAPES)], shape >= len(SHAPES)
        size, fill = 7 if marker == "square" else 9, style.ORANGE if filled else None
        points = _dots(panel, "alpha", name, source, marker, size, fill, style.ORANGE, 2)
        points.view = CDSView(filter=GroupFilter(column_name="shape", group=shape))
        if marker == "square" and not filled:
            points.glyph.tags = [ALIKE]
        drawn.append(points)
    return drawn


def _path(sources: Mapping[str, Any], name: str, label: str, columns: tuple[str, str, str]) -> Any:
    """What descents show in time, a colour for each alpha: means over samples, theory along the path, and a third, dashed."""
    seen, theory, third = columns
    panel, lines = _panel(name, "time t of gradient flow", label, x_axis_type="log"), sources["path_lines"]
    panel.multi_line("time", theory, source=lines, line_color="color", line_width=2)
    panel.multi_line("time", third, source=lines, line_color="color", line_width=1.5, line_dash=[6, 3])
    points = _dots(panel, "time", seen, sources["path"], "circle", 7, "color")
    return _hover(panel, [points], ("α", "@alpha{0.000}"), ("t", "@time{0.00}"), ("", f"@{seen}{{0.0000}}"))


def _phases(sources: Mapping[str, Any], widths: Sequence[float]) -> Any:
    low, high = A_RANGE
    panel = _panel("phases", "normalisation a", "student width p", x_axis_type="log")
    panel.x_range.update(start=low, end=high)
    panel.y_range.update(start=-0.5, end=len(widths) - 0.5)
    colours = LinearColorMapper(palette=list(PHASE_COLOURS), low=-0.5, high=len(PHASE_COLOURS) - 0.5)
    place = {"x": low, "y": -0.5, "dw": high - low, "dh": len(widths)}
    panel.image("image", source=sources["phases"], color_mapper=colours, **place)
    panel.line("a", "row", source=sources["a_c"], line_color="#222222", line_width=2)
    _dots(panel, "a", "row", sources["a_c"], "circle", 6, "white", "#222222", 1.5)
    _dots(panel, "a", "row", sources["present"], "circle", 17, None, "white", 6)
    _dots(panel, "a", "row", sources["present"], "circle_dot", 17, None, style.BLACK, 2.5)
    panel.yaxis.ticker = FixedTicker(ticks=list(range(len(widths))))
    panel.yaxis.major_label_overrides = row_names(widths)
    panel.grid.visible = False
    return panel
