"""A server of `bbp explore` and a headless Chromium for the tests that need a browser.

Without a browser they are skipped with a message; with BBP_BROWSER=required in the environment (as .ci/run sets it) they fail.
"""

import contextlib
import csv
import functools
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains

from bbp import sweep
from bbp.explorer import curves
from bbp.explorer.export import Grid, export
from bbp.explorer.state import State
from bbp.files import dataset

CHROMIUM, DRIVER = ("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1300,1500",
)
START = State(n=1_000_000)  # of most pages: the default but for N, at which no finite-N curve is begun
PATIENCE = 90.0  # seconds; a page that takes longer is broken


def wait(condition, what, seconds=PATIENCE):
    """The first true value of `condition()`; fails with `what` after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.03)
    raise AssertionError(f"waited {seconds:g} s for {what}")


@contextlib.contextmanager
def explorer(*options, folder):
    """(address, process) of a server that runs inside the block."""
    words = [sys.executable, "-m", "tests.bbp.explorer.apart", "--no-browser", *options]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=folder
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        yield found.group(), process
    finally:
        interrupted = process.poll() is None
        if interrupted:
            process.send_signal(signal.SIGINT)
        try:
            said = process.communicate(timeout=120)[1].splitlines()
        except subprocess.TimeoutExpired:
            process.kill()  # else it would be found unclosed in whichever test comes next
            process.communicate()
            raise
        assert not interrupted or (said[-1] == "bbp explore: stopped" and process.returncode == 130)


def connections(address):
    """How many the server at http://localhost:PORT/... has open, by the kernel's table."""
    port = f":{int(re.search(r':([0-9]+)', address[5:]).group(1)):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(port) and row[3] == "01" for row in rows)


class Page:
    """The browser's tab with an explorer in it: what a user does and reads."""

    def __init__(self, driver, address):
        self.driver, self.address = driver, address

    def open(self, query="", address=None):
        self.driver.get((address or self.address) + query)
        self.ready()
        return self

    def blank(self):
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.set_window_size(1300, 1500)
        return self

    def ready(self):
        self.until("document.documentElement.dataset.ready", "the page")

    def stands(self):
        """Whether an explorer's page of this address is open."""
        here = self.driver.current_url.startswith(self.address)
        return here and self.script("return Boolean(document.documentElement.dataset.ready)")

    def script(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def until(self, expression, what, seconds=PATIENCE):
        """Wait for the expression to be true in the page, which looks by itself: each look from here costs three processes."""
        look = (
            "const done = arguments[0], end = performance.now() + 1e3 * %g; (function look() { if (%s) done(true);"
            " else if (performance.now() > end) done(false); else setTimeout(look, 10); })()"
        )
        assert self.driver.execute_async_script(look % (seconds, expression)), (
            f"waited {seconds:g} s for {what}"
        )

    def says(self, name, words, seconds=PATIENCE):
        """Wait until an element's text has these words."""
        found = f"document.getElementById('{name}').textContent.includes({json.dumps(words)})"
        self.until(found, f"{words!r} in {name}", seconds)

    def has(self, source, column, wanted=True):
        """Wait until a source of the figures has values in a column (or none)."""
        length = f"bbp.board().sources['{source}'].data['{column}'].length"
        self.until(f"{length} > 0" if wanted else f"{length} === 0", f"values of {source}")

    def element(self, name):
        return self.driver.find_element("id", name)

    def text(self, name):
        return self.script("return document.getElementById(arguments[0]).textContent", name)

    def serial(self):
        return int(self.script("return document.documentElement.dataset.serial || 0"))

    def after(self, action):
        """Do something that asks the server, and wait for the answer to the last question."""
        before = self.serial()
        action()
        self.until(f"document.documentElement.dataset.serial > {before} && bbp.quiet()", "an answer")

    def move(self, state):
        self.after(lambda: self.script("bbp.move(arguments[0])", state.values()))

    def type(self, name, value):
        def act():
            field = self.element(f"c-{name}")
            field.clear()
            field.send_keys(value, "\n")

        self.after(act)

    def keys(self, name, *keys):
        self.after(lambda: self.element(f"r-{name}").send_keys(*keys))

    def state(self):
        return State.of(self.script("return bbp.state()"))

    def words(self, names):
        return {name: self.text(name) for name in names}

    def columns(self, source):
        """Columns of a source as the figure holds them, as the page's own CSV has them."""
        text = self.script("return bbp.csvOf(arguments[0])", source)
        lines = text.splitlines()
        assert lines[0].startswith("# ")
        rows = list(csv.reader(io.StringIO("\n".join(lines[1:]))))
        return {name: [row[k] for row in rows[1:]] for k, name in enumerate(rows[0])}

    def complaints(self):
        """What the console has at warning or worse since it was last asked."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]


@pytest.fixture(scope="session", autouse=True)
def diagrams_are_computed_once():
    """A tenth of a second for each p* and noise, as the server of a page keeps them too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curves, "phase_map", functools.cache(curves.phase_map))
        yield


def _first(names):
    return next(filter(None, map(shutil.which, names)), None)


def tap(page, name, x, y):
    """Click at (x, y) of a figure's axes."""
    place = page.script(
        "const view = Bokeh.index.find_one(bbp.board().figures[arguments[0]]), box = view.el.getBoundingClientRect();"
        "return [box.left + view.frame.x_scale.compute(arguments[1]), box.top + view.frame.y_scale.compute(arguments[2])]",
        name,
        x,
        y,
    )
    finger = ActionChains(page.driver)
    finger.w3c_actions.pointer_action.move_to_location(round(place[0]), round(place[1]))
    finger.w3c_actions.pointer_action.click()
    page.after(finger.perform)


@pytest.fixture(scope="session")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="session")
def driver(tmp_path_factory, downloads):
    chromium, chromedriver = _first(CHROMIUM), _first(DRIVER)
    if not (chromium and chromedriver):
        words = "no Chromium and chromedriver here (Debian: apt-get install chromium chromium-driver)"
        if os.environ.get("BBP_BROWSER") == "required":
            pytest.fail(words)
        pytest.skip(words)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=chromedriver)
    browser = webdriver.Chrome(options=options, service=service)
    browser.set_script_timeout(PATIENCE + 5)
    yield browser
    browser.quit()


OWN = """
import numpy as np
from theory import Activation

bend = Activation(
    "bend",
    lambda x, xp: x**2 / (1 + x**2 / 10),
    lambda x, xp: 2 * x / (1 + x**2 / 10) ** 2,
    lambda x, xp: 2 / (1 + x**2 / 10) ** 2 - 0.8 * x**2 / (1 + x**2 / 10) ** 3,
    "even",
    infimum=0.0,
)

def ipr(vectors):
    "inverse participation ratio"
    return np.sum(vectors**4, axis=0)
"""


@pytest.fixture(scope="session")
def own_sweep(tmp_path_factory):
    """A sweep with an activation and an observable of one's own, in the folder of the file that they are from."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(OWN)
    words = ["--alpha-grid", "3,5", "--n", "24", "--samples", "4", "--a", "0.5", "--quiet"]
    words += ["--activation", "mine.py:bend", "--observable", "mine.py:ipr", "--out", "own.h5"]
    with contextlib.chdir(folder):
        assert sweep.main(words) == 0
    return folder / "own.h5"


@pytest.fixture(scope="session")
def serve(own_sweep):
    """A function that gives the one server of all tests that has that file open, or another where it has been stopped."""
    running = []
    with contextlib.ExitStack() as stack:

        def start():
            if not running or running[-1][1].poll() is not None:
                running.append(stack.enter_context(explorer("own.h5", folder=own_sweep.parent)))
            return running[-1]

        yield start


@pytest.fixture
def server(serve):
    """The address of the file's model, and the process."""
    return serve()


@pytest.fixture
def address(server):
    """Of the default state."""
    return server[0].partition("?")[0]


def keep_first_tab(driver):
    """Close all others."""
    for handle in driver.window_handles[1:]:
        driver.switch_to.window(handle)
        driver.close()
    driver.switch_to.window(driver.window_handles[0])


@pytest.fixture
def tab(driver, address):
    """An empty tab for a page, whose console must be clean in the end."""
    keep_first_tab(driver)
    shown = Page(driver, address).blank()
    yield shown
    assert shown.complaints() == []


@pytest.fixture
def page(driver, address):
    """A page in the state START: that of the test before moved back, where it is still open; half of a page is its loading."""
    shown = Page(driver, address)
    keep_first_tab(driver)
    if shown.stands():
        shown.move(START)
    else:
        shown.blank().open(f"?n={START.n}")
    yield shown
    assert shown.complaints() == []


@pytest.fixture
def saved(downloads):
    """Waits for one file that the browser saves; gives its content."""

    def take(action, ending):
        before = set(downloads.iterdir())
        action()

        def done():
            new = [path for path in set(downloads.iterdir()) - before if path.name.endswith(ending)]
            return new[0] if new and new[0].stat().st_size else None

        path = wait(done, f"a file *{ending}")
        return Path(path).name, path.read_bytes()

    return take


@pytest.fixture(scope="session")
def small_sweep(tmp_path_factory):
    """A sweep of a few samples: its path, and the means that a page should show."""
    path = tmp_path_factory.mktemp("sweep") / "small.h5"
    words = "--quiet --alpha-grid 1,2 --p 1 --a 0.5 --n 20 --samples 3 --out".split()
    assert sweep.main([*words, str(path)]) == 0
    stored = dataset.open(path)
    lowest = stored.eigenvalues.values[0, :, :, 0].mean(axis=-1)
    return SimpleNamespace(path=path, lowest=lowest, alpha=stored.alpha.values)


@pytest.fixture(scope="session")
def small_export(tmp_path_factory):
    """An exported page of a small grid."""
    path = tmp_path_factory.mktemp("export") / "page.html"
    grid = Grid(
        (1, 2, math.inf), (1,), a_range=(0.25, 1.0), models=3, curves=8, fine=30, nodes=40, checks=12,
        ratios=(0.2, 0.6, 1.0, 1.6, 2.5, 4.0),
    )  # fmt: skip
    size = export(str(path), grid=grid)
    assert size == path.stat().st_size < 5e6
    return path
