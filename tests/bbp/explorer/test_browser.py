"""The explorer in a real browser: what a user does, and what the page then says, against theory and samples called directly."""

import csv
import io
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys

import theory
from bbp.explorer.answer import answer, number
from bbp.explorer.files import read
from bbp.explorer.samples import draws_of, sampling_of
from bbp.explorer.state import CONTROLS, OPTIONS, State, command, python_lines
from bbp.files import dataset
from sims import instance, sampling
from tests.bbp.explorer.conftest import START, Page, connections, tap, wait
from theory import bbp_threshold, bulk_edge, density
from theory.finite.law import law as law_at
from theory.finite.quenched import quenched
from theory.general import density as general_density
from theory.general import lowest_branch

DESCENTS = Path(__file__).parents[3] / "data" / "descent" / "descent_p1_a0.5_n100_path.h5"
NUMBERS = "alpha_bbp jump alpha_0 alpha_0_continuation a_c edge outlier overlap atom phase".split()
SMALL = State(p=1, a=0.5, alpha=3.0, n=60)  # where a sample is quick
MOVES = {
    "p": (Keys.ARROW_RIGHT * 2, "inf"),
    "p_star": (Keys.ARROW_RIGHT, "5"),
    "a": (Keys.ARROW_LEFT * 3, "1.25"),
    "alpha": (Keys.PAGE_UP, "0.75"),
    "n": (Keys.ARROW_LEFT * 5, "777"),
}


def floats(columns):
    return {name: np.array(values, dtype=np.float64) for name, values in columns.items()}


def check_numbers(page):
    """Every number on the page is that of theory for the page's own state, to all digits shown; so are the curves."""
    state = page.state()
    exact = answer(state)
    assert page.words(NUMBERS) == {name: exact.words[name] for name in NUMBERS}
    out, edge = (
        next(iter(theory.outliers(state.model, state.alpha)), None),
        bulk_edge(state.model, state.alpha),
    )
    assert page.text("edge").split()[0] == number(edge.value)
    assert page.text("outlier") == (number(out.value) if out else "none")
    for source in ("density", "branch", "zoom"):
        shown = floats(page.columns(source))
        for name, values in exact.sources[source].items():
            np.testing.assert_allclose(shown[name], values, rtol=1e-12)
    return state


def test_a_fresh_page_shows_the_default_state(tab):
    tab.open()
    assert check_numbers(tab) == State()
    assert tab.text("command") == command(State())
    assert tab.text("python") == python_lines(State())
    for name in ("spectrum", "lowest", "recovery", "phases"):
        assert tab.text(f"{name}-words") == answer(State()).words[f"{name}-words"]


def test_nothing_jumps_while_the_page_loads_and_moves(page):
    page.type("a", "2")
    page.type("p", "inf")
    observe = (
        "const done = arguments[0]; let sum = 0; new PerformanceObserver((list) => {"
        " for (const e of list.getEntries()) sum += e.value; }).observe({type: 'layout-shift', buffered: true});"
        "setTimeout(() => done(sum), 300)"
    )
    assert page.driver.execute_async_script(observe) < 0.02


def test_every_control_moves_everything(page):
    assert set(MOVES) == {control.name for control in CONTROLS if control not in OPTIONS}
    for name, (keys, typed) in MOVES.items():
        before = page.state()
        page.keys(name, keys)
        moved = page.state()
        assert getattr(moved, name) != getattr(before, name)
        assert replace(moved, **{name: getattr(before, name)}) == before
        assert page.element(f"c-{name}").get_attribute("value") == str(moved.values()[name])
        page.type(name, typed)
        state = check_numbers(page)
        assert getattr(state, name) == float(typed)
        assert page.text("command") == command(state)
        wait(lambda words=f"{name}={typed}": words in page.driver.current_url, "the address")


def test_a_refusal_is_in_words_and_controls_stand_where_the_numbers_are(page):
    """What was typed stays, to be corrected; what was chosen goes back."""

    def refused(name, act, words="must"):
        before, numbers = page.state(), page.words(NUMBERS)
        act()
        assert words in page.text("error") and (page.state(), page.words(NUMBERS)) == (before, numbers)
        return page.element(f"c-{name}").get_attribute("value")

    for name, typed in (("p", "2.5"), ("a", "<b>0</b>")):
        assert refused(name, lambda name=name, typed=typed: page.type(name, typed)) == typed
        assert page.element(f"c-{name}").get_attribute("aria-invalid") == "true"
        page.type(name, "30")
        assert page.text("error") == "" and getattr(page.state(), name) == 30
    check_numbers(page)
    page.type("p", "inf")
    page.script("document.getElementById('options').open = true")
    squared = next(
        option
        for option in page.element("c-loss").find_elements("tag name", "option")
        if option.text == "squared"
    )
    assert refused("loss", lambda: page.after(squared.click)) == "normalised"
    assert refused("overlap", lambda: page.type("overlap", "0.5"), "overlap") == "0.5"
    page.type("overlap", "0")
    assert page.text("error") == ""
    page.script("document.getElementById('options').open = false")


def test_copy_puts_the_lines_on_the_clipboard(page):
    origin = page.script("return location.origin")
    permissions = {"origin": origin, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    page.driver.execute_cdp_cmd("Browser.grantPermissions", permissions)
    for name, wanted in (("command", command(START)), ("python", python_lines(START)), ("link", None)):
        page.driver.find_element("css selector", f"[data-copy={name}]").click()
        page.says("copied", "Copied")
        read = "const done = arguments[0]; navigator.clipboard.readText().then(done, (e) => done(String(e)))"
        copied = page.driver.execute_async_script(read)
        assert copied == (wanted or f"{page.address}?{START.query()}")
        page.script("document.getElementById('copied').textContent = ''")


def test_files_hold_what_is_on_the_page(page, saved):
    click = page.driver.find_element
    name, content = saved(lambda: click("css selector", "#panels [data-csv=branch]").click(), ".csv")
    lines = content.decode().splitlines()
    assert lines[0].startswith("# branch of p = 2, p* = 1, a = 0.3")
    assert "p2-p_star1-a0.3" in name
    table = [[float(cell) for cell in row] for row in list(csv.reader(io.StringIO("\n".join(lines[2:]))))]
    assert lines[1] == "alpha,edge,outlier,overlap"
    for alpha, edge, *_ in table[::25]:
        assert edge == pytest.approx(bulk_edge(State().model, alpha).value, rel=1e-12)
    name, content = saved(
        lambda: click("css selector", "[data-picture=phases][data-form=png]").click(), ".png"
    )
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(content) > 5000
    name, content = saved(
        lambda: click("css selector", "[data-picture=lowest][data-form=svg]").click(), ".svg"
    )
    drawing = ElementTree.fromstring(content)
    assert drawing.tag.endswith("svg")
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}path"))) > 10


def test_two_tabs_do_not_disturb_each_other_and_a_bad_link_opens_with_words(page):
    driver, first = page.driver, page.driver.current_window_handle
    page.type("a", "1.5")
    driver.switch_to.new_window("tab")
    second = Page(driver, page.address).open(f"?n={START.n}&p=0&alpha=x&a=0.7&%3Cscript%3E=1")
    assert "In the link: p must lie between 1 and 512" in second.text("notice")
    assert second.script("return document.querySelectorAll('#notice *').length") == 0
    second.type("alpha", "3")
    assert check_numbers(second) == replace(START, a=0.7, alpha=3.0)
    driver.switch_to.window(first)
    page.type("alpha", "2.5")
    assert check_numbers(page) == replace(START, a=1.5, alpha=2.5)


def test_a_page_that_is_left_lets_go_of_its_server_and_its_link_restores_it(page):
    """Chromium may keep a page that is left as it is: its websocket would stay, and what the server computes for it."""
    left = replace(START, p=math.inf, a=1.5, alpha=2.5)
    page.move(left)
    numbers, url = page.words(NUMBERS), page.text("link")
    wait(lambda: page.driver.current_url == url, "the address")  # which is written a moment late
    before = connections(page.address)
    page.driver.get("about:blank")
    wait(lambda: connections(page.address) < before, "the websocket to be closed")
    page.driver.back()
    page.ready()
    assert page.state() == left and page.words(NUMBERS) == numbers
    page.type("alpha", "3")
    assert check_numbers(page) == replace(left, alpha=3.0)


def test_clicks_move_the_point(page):
    page.script(
        "document.getElementById('plot-phases').scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    tap(page, "phases", 2.0, 3)
    state = check_numbers(page)
    assert state.p == 4
    assert state.a == pytest.approx(2.0, rel=0.05)
    page.script(
        "document.getElementById('plot-lowest').scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    here = bbp_threshold(state.model).alpha
    tap(page, "lowest", here, float(bulk_edge(state.model, here).value))
    assert check_numbers(page).alpha == pytest.approx(here, rel=0.05)


def test_a_sweep_file_lies_over_the_curves(page, small_sweep, tmp_path):
    upload = page.element("sweep-file")
    page.type("a", "0.9")
    upload.send_keys(str(small_sweep.path))
    page.says("sweep-words", "choose one")
    assert len(page.columns("sweep")["alpha"]) == 0
    page.after(lambda: page.driver.find_element("css selector", "#sweep-models button").click())
    shown = floats(page.columns("sweep"))
    np.testing.assert_allclose(shown["lowest"], small_sweep.lowest, rtol=1e-12)
    np.testing.assert_allclose(shown["alpha"], small_sweep.alpha, rtol=1e-12)
    assert "points of this model" in page.text("sweep-words")
    assert page.script(
        "return [...document.querySelectorAll('.key-file')].map((key) => key.textContent)"
    ) == (["small.h5: □ N = 20"] * 3)
    assert {float(shape) for shape in page.columns("sweep")["shape"]} == {0.0}
    broken = tmp_path / "broken.h5"
    broken.write_bytes(small_sweep.path.read_bytes()[:3000])
    page.element("sweep-file").send_keys(str(broken))
    page.says("sweep-words", "broken.h5")
    assert str(tmp_path) not in page.text("sweep-words")
    page.element("close-sweep").click()
    page.has("sweep", "alpha", wanted=False)


def test_legends_name_the_size_and_a_question_mark_says_what_one_sees(page):
    page.type("n", "777")
    assert set(
        page.script("return [...document.querySelectorAll('.key-n')].map((key) => key.textContent)")
    ) == {"N = 777"}
    marks = page.driver.find_elements("css selector", ".what")
    shown = [mark for mark in marks if mark.is_displayed()]
    assert len(shown) == 4  # spectrum, lowest eigenvalue, overlap, phases
    for mark in shown:
        summary, words = (mark.find_element("css selector", part) for part in ("summary", "p"))
        assert not words.is_displayed()
        summary.click()
        assert words.is_displayed() and len(words.text) > 80
        assert sum(other.find_element("css selector", "p").is_displayed() for other in shown) == 1
    page.element("phase").click()
    assert not any(mark.find_element("css selector", "p").is_displayed() for mark in shown)


def test_descents_of_a_file_lie_in_a_panel_of_their_own(page):
    """A colour for each alpha."""
    assert not page.element("paths").is_displayed()
    page.element("sweep-file").send_keys(str(DESCENTS))
    page.says("sweep-words", "choose one")
    page.after(lambda: page.script("document.querySelector('#sweep-models button').click()"))
    page.says("path-words", "N = 100, random start; from dark to light α = 1, 2, 3, 4")
    assert page.element("paths").is_displayed()
    shown, (held,) = page.columns("path"), read(DESCENTS)
    assert len(set(shown["color"])) == 4
    for name in ("time", "lowest", "overlap", "m2"):
        np.testing.assert_allclose(floats({name: shown[name]})[name], held.paths["path"][name], rtol=1e-12)
    page.script("document.getElementById('close-sweep').click()")
    page.has("path", "time", wanted=False)
    assert not page.element("paths").is_displayed()


def test_themes_and_sizes(page):
    button = page.element("theme")
    colours = []
    for wanted in ("light", "dark", "system"):
        button.click()
        assert page.text("theme") == f"theme: {wanted}"
        colours.append(page.script("return getComputedStyle(document.body).backgroundColor"))
        axis = "const colour = bbp.board().figures.lowest.below[0].major_label_text_color; return colour.value || colour"
        assert page.script(axis) == ("#eceff3" if wanted == "dark" else "#16181c")
    assert colours[0] != colours[1]
    for width in (360, 768, 1300):
        page.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        page.until(f"innerWidth === {width}", "the size")
        assert page.script("return document.documentElement.scrollWidth") <= width
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_everything_has_a_name_for_those_who_do_not_see_it_and_no_other_machine_is_asked(page):
    nameless = page.script(
        "return [...document.querySelectorAll('input, select, button, progress, [role=img]')].filter((e) => !("
        "e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length))).map((e) => e.outerHTML)"
    )
    assert nameless == []
    figures = page.driver.find_elements("css selector", "[role=img]")
    for figure in (figure for figure in figures if figure.is_displayed()):
        described = page.text(figure.get_attribute("aria-describedby"))
        assert any(character.isdigit() for character in described)
    assert page.script("return document.documentElement.lang") == "en"
    names = page.script("return performance.getEntriesByType('resource').map((e) => new URL(e.name).host)")
    assert set(names) <= {page.script("return location.host")}


def test_the_options_of_the_model_move_numbers_and_curves(page):
    """p = 1 and the size of the committee's sample: the theory is quick, and the sample is compiled once."""
    page.move(SMALL)
    noisy = replace(SMALL, noise=0.3)
    page.element("options").find_element("tag name", "summary").click()
    page.type("noise", "0.3")
    assert page.state() == noisy
    page.says("spectrum-words", "drawn to a part")
    drawn = floats(page.columns("density"))
    some = drawn["lam"][::15]
    np.testing.assert_allclose(
        drawn["rho"][::15],
        general_density(page.state().model, 3.0, some, 1e-3),
        atol=2e-3 * np.max(drawn["rho"]),
    )
    page.has("branch", "alpha")
    exact = answer(noisy)
    assert page.words(NUMBERS) == {name: exact.words[name] for name in NUMBERS}
    shown = floats(page.columns("branch"))
    np.testing.assert_allclose(shown["edge"], lowest_branch(noisy.model, shown["alpha"]).edge, rtol=1e-9)
    page.type("readout", "1,-0.5")
    assert "readout must be one number for each of 1 students" in page.text("error")
    page.type("readout", "-0.5")
    assert page.state() == replace(noisy, readout="-0.5")
    page.type("readout", "")
    page.after(lambda: page.element("c-covariance").send_keys("mp:0.5"))
    assert page.state() == replace(noisy, covariance="mp:0.5")
    assert page.text("outlier") == answer(page.state()).words["outlier"]
    assert "covariance=mp%3A0.5" in page.text("link")
    page.element("draw").click()
    page.says("sample-words", "all eigenvalues")
    state = page.state()
    found = sampling.sample_point(state.model, 60, state.alpha, [0], 0, eigenpairs=60)
    np.testing.assert_allclose(floats(page.columns("eigenvalues"))["lam"], found.eigenvalues[0], atol=1e-10)


def test_a_sample_is_the_one_of_the_sweep_and_its_prediction_that_of_its_labels(page):
    page.move(SMALL)
    page.element("draw").click()
    page.has("eigenvalues", "lam")
    page.until("!document.getElementById('draw').disabled", "the words that follow")
    pairs, solver = sampling_of(SMALL)
    found = sampling.sample_point(SMALL.model, 60, 3.0, range(4), 0, eigenpairs=pairs, solver=solver)
    drawn = floats(page.columns("eigenvalues"))["lam"]
    which = int(
        np.argmin(np.abs(found.eigenvalues[:, 0] - drawn[0]))
    )  # the page may have drawn others before
    np.testing.assert_allclose(drawn, found.eigenvalues[which], atol=1e-10)
    lowest = float(found.eigenvalues[which, 0])
    lam, u = instance.preactivations(instance.draw(SMALL.model, 60, 3.0, seed=0, sample=which))
    predicted = quenched(SMALL.model, lam, u, 60)
    assert f"Lowest {number(lowest)}" in page.text("sample-words")
    assert f"predict edge {number(predicted.edge)}" in page.text("sample-words")
    bars = floats(page.columns("histogram"))
    inside = (drawn >= bars["left"][0]) & (drawn <= bars["right"][-1])
    assert np.sum(bars["top"] * (bars["right"] - bars["left"])) == pytest.approx(np.mean(inside))
    dot = floats(page.columns("drawn"))
    assert dot["alpha"] == [3.0]
    assert dot["lowest"] == pytest.approx(lowest)
    page.type("alpha", "3.5")
    assert len(page.columns("histogram")["left"]) == 0
    assert len(page.columns("drawn")["alpha"]) == 1
    page.type("a", "0.6")
    assert len(page.columns("drawn")["alpha"]) == 0


def test_the_finite_curve_arrives_and_lies_about_theory(page):
    page.move(replace(SMALL, n=100, alpha=1.0))
    page.has("finite", "alpha")
    finite, model = floats(page.columns("finite")), page.state().model
    law = law_at(model, float(finite["alpha"][11]), 100, draws=draws_of(page.state(), finite["alpha"][-1]))
    assert finite["lowest"][11] == pytest.approx(law.mean("lowest")[0], rel=1e-9)
    assert finite["overlap_high"][11] == pytest.approx(law.mean("overlap")[0] + law.std("overlap"), rel=1e-9)
    assert np.all(finite["lowest_low"] <= finite["lowest"])
    assert np.all(finite["lowest"] <= finite["lowest_high"])
    assert 0 < finite["overlap"][-1] < 1
    limit = next(iter(theory.outliers(model, float(finite["alpha"][-1]))), None)
    assert finite["overlap"][-1] == pytest.approx(limit.overlap, abs=0.15)


def test_what_bokeh_is_spared_changes_no_pixel(page):
    """Every shortcut of hasten.js is in place, and figures with and without them are the same; none needs a new layout."""
    compare = (
        "const seen = (figure) => Bokeh.index.find_one(figure).el.offsetParent !== null;"
        "const all = Object.values(bbp.board().figures).filter(seen);"
        "const views = all.map((figure) => Bokeh.index.find_one(figure));"
        "const shot = () => views.map((view) => view.export('png').canvas.toDataURL()), done = bbp.hastened().done;"
        "const axes = all.flatMap((figure) => [...figure.below, ...figure.left]).map((axis) => Bokeh.index.find_one(axis));"
        "const short = shot(); bbp.hastened().undo(); const long = shot();"
        "return [done, short.map((drawn, k) => drawn === long[k]), axes.map((axis) => axis.layout.has_size_changed())]"
    )
    page.type("a", "0.0123")
    done, same, moved = page.script(compare)
    assert done == ["colours", "places", "font", "sizes", "heights", "widths", "squares", "bars", "extents"]
    assert same == [True] * 5  # three more are hidden without a file
    assert moved == [False] * 10
    page.blank()  # for whoever comes next; nothing of this page can be used


def test_the_exported_page_needs_no_server(tab, small_export):
    tab.driver.get(small_export.as_uri() + "?p=2&p_star=1&a=0.5&alpha=1.7")
    tab.ready()
    tab.until("document.documentElement.dataset.serial >= 1", "the first answer")
    model, alpha = State(a=0.5).model, 1.7

    def shown(name):
        return float(tab.text(name).split()[0].replace("\u2212", "-"))

    def compare(model, alpha):
        out = next(iter(theory.outliers(model, alpha)), None)
        assert shown("alpha_bbp") == pytest.approx(bbp_threshold(model).alpha, rel=5e-3)
        assert shown("edge") == pytest.approx(bulk_edge(model, alpha).value, abs=0.02)
        assert shown("outlier") == pytest.approx(out.value, abs=0.02)
        assert shown("overlap") == pytest.approx(out.overlap, abs=0.02)

    compare(model, alpha)
    tab.type("alpha", "2.2")
    compare(model, 2.2)
    tab.type("p", "inf")
    compare(replace(State(a=0.5), p=math.inf).model, 2.2)
    tab.type("p", "7")
    assert "This file holds p = " in tab.text("error")
    tab.type("p", "1")
    assert tab.text("error") == ""
    rho = floats(tab.columns("density"))
    assert np.all(np.diff(rho["lam"]) >= 0)
    exact = density(State(p=1, a=0.5).model, 2.2, rho["lam"])
    stated = float(
        re.search(r"density (\S+) \(share", tab.driver.find_element("tag name", "aside").text).group(1)
    )
    misplaced = np.trapezoid(np.abs(rho["rho"] - exact), rho["lam"]) / np.trapezoid(exact, rho["lam"])
    assert misplaced < min(0.1, stated)
    assert tab.script("return performance.getEntriesByType('resource').length") == 0


def test_a_file_with_functions_of_ones_own_is_shown(tab, server, own_sweep):
    """Its activation is the page's, theory and samples; the select has every quantity of the file, its observable too."""
    url, _ = server
    found = dataset.open(own_sweep)
    assert "activation=mine.py%3Abend" in url
    tab.open(address=url)
    assert tab.element("c-activation").get_attribute("value") == "mine.py:bend"
    assert "--activation mine.py:bend" in tab.text("command")
    lowest = found.eigenvalues.values[0, :, :, 0].mean(axis=-1)
    np.testing.assert_allclose(floats(tab.columns("sweep"))["lowest"], lowest, rtol=1e-12)
    options = tab.element("quantity").find_elements("tag name", "option")
    held = {option.get_attribute("value"): option.text for option in options}
    assert held["ipr"] == "inverse participation ratio" and {"lowest", "overlap", "gap"} <= set(held)
    next(option for option in options if option.get_attribute("value") == "ipr").click()
    tab.until(
        "bbp.board().sources.quantity.data.value[0] < 1 && bbp.board().sources.quantity.data.value[0] > 0",
        "ipr",
    )
    shown = floats(tab.columns("quantity"))
    ipr = found.ipr.isel(eigenpair=0).mean("sample").values.ravel()
    np.testing.assert_allclose(shown["value"], ipr, rtol=1e-12)
    tab.element("draw").click()
    tab.has("eigenvalues", "lam")


def test_a_sample_can_be_cancelled(page):
    """At the end: the process that computed it is killed, and the next sample starts another."""
    page.move(State(p=1, n=2000, alpha=4.0))
    page.element("draw").click()
    page.until("!document.getElementById('cancel').disabled", "the button")
    page.driver.find_element("tag name", "body").send_keys(Keys.ESCAPE)
    page.says("sample-words", "cancelled", 8)
    assert page.element("draw").is_enabled()
    page.type("p", "inf")
    page.element("draw").click()
    page.says("sample-words", "finite p")
