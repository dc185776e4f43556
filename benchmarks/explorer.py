"""The explorer in a headless Chromium: first paint, and the time from a move of a control to the redrawn page.

    python -m benchmarks.explorer [--moves 20]

Prints, for each control, median, 95th percentile and largest time in milliseconds as the page itself measures them (question
sent, theory computed, figures updated, next frame painted), the 95th percentile as a ratio to the 100 ms that a redraw may
take, the share of redraws above it, and the first paint against 2 s. No model is met twice but by the control N. The load
says whether other programs used the processor meanwhile. Needs chromium and chromedriver.
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
VALUES = {
    "alpha": lambda k: 1 + 0.07 * k,
    "a": lambda k: 0.2 * 1.1**k,
    "n": lambda k: 100 + 37 * k,
    "p": lambda k: k + 3,
    "p_star": lambda k: k + 2,
}


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


def moves(page: webdriver.Chrome, name: str, number: int) -> list[float]:
    """Milliseconds of so many moves of one control."""
    times = []
    for k in range(number):
        before = page.execute_script("return bbp.timings().length")
        page.execute_script(f"bbp.move({json.dumps({name: VALUES[name](k)})})")
        until(page, f"bbp.timings().length > {before} || bbp.timings().length >= 500")
        times.append(page.execute_script("return bbp.timings().at(-1)"))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moves", type=int, default=20, help="of each control")
    number = parser.parse_args().moves
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
        for name in VALUES:
            page.execute_script("bbp.move({p: 2, p_star: 1, a: 0.3, alpha: 2, n: 400})")
            until(page, "bbp.quiet()")
            times = moves(page, name, number)
            middle, high, worst = statistics.median(times), float(np.quantile(times, 0.95)), max(times)
            late = sum(t > REDRAW for t in times) / len(times)
            print(
                f"{name:6} median {middle:4.0f} ms, 95% below {high:4.0f} ms, largest {worst:4.0f} ms; "
                f"{high / REDRAW:.2f} of {REDRAW:.0f} ms, {late:.0%} above"
            )
    finally:
        page.quit()
        server.send_signal(signal.SIGINT)
        server.wait(20)


if __name__ == "__main__":
    main()
