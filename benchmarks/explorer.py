"""The explorer in a headless Chromium: first paint, and the time from a move of a control to the redrawn page.

    python -m benchmarks.explorer [--moves 20] [--seed 0]

Each move takes one control to a random value of its whole range (p to any width, p* up to 64), none of them met before by this
server, so that no answer is remembered, from a model that is random as well. For each control: median and 95th percentile in
milliseconds as the page itself measures them, from the question to the frame after the last of the five figures is painted; the
share of redraws under the 100 ms that one may take; and the medians of the parts: theory (the server's answer), wire (both
ways, Bokeh's protocol, waiting), browser (figures updated and painted). Then the first paint against 2 s. The load says whether
other programs used the processor meanwhile. Needs chromium and chromedriver.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from selenium import webdriver

REDRAW, PAINT = 100.0, 2000.0  # milliseconds
CONTROLS = ("alpha", "a", "p", "p_star", "n")
PARTS = ("theory", "wire", "browser")
RANGES = {"alpha": (0.1, 50.0), "a": (0.01, 30.0), "n": (50, 20_000), "p": (1, 512), "p_star": (1, 64)}


class Values:
    """Random values of the controls, log-uniform over their ranges, and none of them twice."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.met: set[tuple[str, float]] = set()

    def of(self, name: str) -> float:
        """A value of one control that was not given before."""
        low, high = RANGES[name]
        while True:
            value = float(f"{np.exp(self.random.uniform(np.log(low), np.log(high))):.4g}")
            value = value if isinstance(low, float) else round(value)
            if (name, value) not in self.met:
                self.met.add((name, value))
                return value


def browser() -> webdriver.Chrome:
    """A headless Chromium with a fresh profile."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=1400,1500"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tempfile.mkdtemp()}")
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def until(page: webdriver.Chrome, condition: str) -> None:
    """Wait for a condition of the page's script."""
    while not page.execute_script(f"return {condition}"):
        time.sleep(0.02)


def moves(page: webdriver.Chrome, name: str, number: int, values: Values) -> list[dict[str, float]]:
    """Times (milliseconds, by part) of so many moves of one control, each from a random model."""
    times = []
    for _ in range(number):
        others = {other: values.of(other) for other in ("alpha", "a") if other != name}
        move(page, others)
        times.append(move(page, {name: values.of(name)}))
    return times


def move(page: webdriver.Chrome, values: dict[str, float]) -> dict[str, float]:
    """Move controls and wait for the painted page."""
    before = page.execute_script("return bbp.timings().length")
    page.execute_script(f"bbp.move({json.dumps(values)})")
    until(page, f"bbp.timings().length > {before} || bbp.timings().length >= 500")
    return page.execute_script("return bbp.timings().at(-1)")


def report(name: str, times: list[dict[str, float]]) -> None:
    """One line for one control."""
    whole = [time["all"] for time in times]
    middle, high = statistics.median(whole), float(np.quantile(whole, 0.95))
    under = sum(t < REDRAW for t in whole) / len(whole)
    parts = ", ".join(f"{part} {statistics.median(t[part] for t in times):3.0f}" for part in PARTS)
    print(
        f"{name:6} median {middle:4.0f} ms, 95% below {high:4.0f} ms ({high / REDRAW:.2f} of {REDRAW:.0f}), "
        f"{under:4.0%} under {REDRAW:.0f}; medians of {parts}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moves", type=int, default=20, help="of each control")
    parser.add_argument("--seed", type=int, default=0, help="of the random values")
    options = parser.parse_args()
    number, values = options.moves, Values(options.seed)
    words = [sys.executable, "-m", "bbp.explore", "--no-browser"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    page = browser()
    try:
        url = re.search(r"http://\S+", server.stdout.readline()).group()
        for _ in range(2):  # the second time as every later page: the server has its theory loaded
            page.get(url)
            until(page, "document.documentElement.dataset.ready")
        paint = page.execute_script(
            "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(f"first paint {paint:6.0f} ms, {paint / PAINT:.2f} of {PAINT:.0f} ms")
        for name in CONTROLS:
            page.execute_script("bbp.move({p: 2, p_star: 1, a: 0.3, alpha: 2, n: 400})")
            until(page, "bbp.quiet()")
            report(name, moves(page, name, number, values))
        print(f"load of the machine at the end {os.getloadavg()[0]:.1f}")
    finally:
        page.quit()
        server.send_signal(signal.SIGINT)
        server.wait(20)


if __name__ == "__main__":
    main()
