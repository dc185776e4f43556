"""Numbers on the pages that theory gives at once, computed again and compared to the last digit shown."""

import math
import re
from functools import cache
from pathlib import Path

import pytest

from theory import Network, critical_normalisation, edge, outliers, threshold
from theory.finite.edge import critical_amplitude

DOCS = Path(__file__).parents[2] / "docs"
DIGITS = re.compile(r"-?\d+(?:\.(\d+))?")


def tables(page):
    """Each table of a page: the words of its head, and its rows."""
    rows = []
    for line in [*(DOCS / page).read_text().splitlines(), ""]:
        if line.startswith("|"):
            rows.append(
                [cell.strip().replace("\\*", "*").replace("$", "") for cell in line.strip("|").split("|")]
            )
        elif rows:
            yield rows[0], rows[2:]
            rows = []


def agrees(shown, value):
    """Whether `value` is what is shown, to the digits shown (and one unit of the last, where a number was cut off)."""
    found = DIGITS.match(shown)
    assert found, shown
    return abs(float(found[0]) - value) < 0.501 * 10.0 ** -len(found[1] or "")


@cache
def limit(p, p_star, a):
    return threshold(Network(p, p_star, a))


def number(text):
    return math.inf if text == "inf" else float(text)


def test_thresholds_over_p_and_a():
    ((head, rows), (_, along)) = list(tables("threshold.md"))
    seen = 0
    for p, *cells in rows:
        for name, cell in zip(head[1:], cells, strict=True):
            shown, kind, *jump = cell.split()
            found = limit(number(p), 1, float(name.removeprefix("a = ")))
            assert agrees(shown, found.alpha) and found.kind.startswith(kind), (p, name)
            assert agrees(jump[0], found.jump) if jump else found.jump == 0
            seen += 1
    assert seen == 20
    for alpha, left, *right in along:
        model = Network(2, 1, 0.5)
        found = outliers(model, float(alpha))
        assert agrees(left, edge(model, float(alpha)).value)
        assert right == ["none", ""] or all(
            agrees(*pair) for pair in zip(right, (found[0].value, found[0].overlap), strict=True)
        )
        assert bool(found) == (right[0] != "none")


def test_where_the_kind_changes():
    text = (DOCS / "threshold.md").read_text()
    shown = re.search(r"which is (\S+), (\S+) and (\S+) for \$p\$ = 1, 2 and 4", text)
    assert all(agrees(*pair) for pair in zip(shown.groups(), critical_normalisation([1, 2, 4]), strict=True))


# Columns of tables whose rows name a model, and what they are of it.
LIMITS = {"limit", "infinity", "alpha_BBP", r"Hessian at the start informative from (\alpha_{BBP})"}


@pytest.mark.parametrize("page, least", [("appendix_finite_n.md", 13), ("minima.md", 3)])
def test_thresholds_beside_measurements(page, least):
    """`limit`, `infinity`, `alpha_BBP`, and alpha over alpha_BBP, where the row names p, p* and a (1 where it does not)."""
    seen = 0
    for head, rows in tables(page):
        if "a" not in head:
            continue
        for row in rows:
            cells = dict(zip(head, row, strict=True))
            model = [cells.get("p") or "1", cells.get("p*") or "1", cells["a"]]
            if not all(map(DIGITS.fullmatch, model)):
                continue  # another loss
            found = limit(float(model[0]), int(model[1]), float(model[2]))
            for name in LIMITS & set(head):
                assert agrees(cells[name], found.alpha), cells
                seen += 1
            if "over alpha_BBP" in head:
                assert agrees(cells["over alpha_BBP"], float(cells["alpha"]) / found.alpha), cells
                seen += 1
    assert seen >= least


def test_overlaps_at_infinity_beside_samples():
    """The table of one sample at a time, its last column."""
    seen = 0
    for head, rows in tables("appendix_finite_n.md"):
        for row in rows if "q2 N = inf" in head else []:
            cells = dict(zip(head, row, strict=True))
            found = outliers(Network(int(cells["p"]), 1, float(cells["a"])), float(cells["alpha"]))
            assert bool(found) == bool(cells["q2 N = inf"])
            if found:
                assert agrees(cells["q2 N = inf"], found[0].overlap), cells
                seen += 1
    assert seen == 6


def test_amplitudes_at_a_sharp_threshold():
    ((head, rows),) = [table for table in tables("appendix_finite_n.md") if "C" in table[0]]
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        model = Network(int(cells["p"]), int(cells["p*"]), float(cells["a"]))
        assert agrees(cells["C"], critical_amplitude(model)), cells


def test_noise_and_power_laws_of_quadratic_students():
    """The blocks of docs/what_survives.md that theory gives in closed form: threshold, kind, alpha_0, and where it ends."""
    text = (DOCS / "what_survives.md").read_text()
    seen = 0
    for kind, a, body in re.findall(r"^(noise|power law), a = (\S+) (.*(?:\n.+)*)", text, re.MULTILINE):
        head, *rows = body.splitlines()
        for row in rows:
            p, cells = row.split(maxsplit=1)
            cells = re.findall(r"([\d.]+) ([cd])(?: ([\d.]+))?(?: to ([\d.]+))?", cells)
            for value, (alpha, word, zero, until) in zip(head.split(), cells, strict=True):
                name = "noise" if kind == "noise" else "covariance"
                option = None if value == "None" else float(value) if name == "noise" else value
                found = threshold(Network(number(p), 1, float(a), **{name: option}))
                assert agrees(alpha, found.alpha) and found.kind.startswith(word), (kind, a, p, value)
                assert not zero or agrees(zero, found.alpha_0), (kind, a, p, value)
                assert agrees(until, found.until) if until else found.until == math.inf, (kind, a, p, value)
                seen += 1
    assert seen > 40


def test_orders_in_n_are_typeset():
    """O(N^{-1/2}) is mathematics on every page, no text."""
    bare = []
    for page in [*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")]:
        words = re.sub(r"```[\s\S]*?```|\$[^$]*\$|`[^`]*`", "", page.read_text())
        bare += [(page.name, found) for found in re.findall(r"O\(\S*N\S*|N\^[{(]\S*", words)]
    assert not bare
