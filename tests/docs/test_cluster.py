"""The scripts of docs/cluster.md on a Slurm that is there: an array that is signalled, requeued and merged, as the page has it.

Runs with `-m slow` where `sbatch` is installed and a cluster answers; elsewhere it says that it does not. On Debian slurm-wlm
and munge give a cluster of one node on loopback. A requeued job waits two minutes.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from bbp.files import dataset

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
SWEEP = 'p = 2\na = 0.3\nn = 150\nalpha_grid = "1,2"\nsamples = 200\nseed = 1\nout = "p2.h5"\n'


def said(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def script():
    """The batch script of the page."""
    text = PAGE.read_text(encoding="utf-8")
    return textwrap.dedent(re.search(r"^    #!/bin/bash\n(?:(?:    .*)?\n)+", text, re.MULTILINE).group())


def waited(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(1)
    return False


@pytest.mark.slow
def test_an_array_that_is_signalled_goes_on_and_is_merged(tmp_path, monkeypatch):
    if shutil.which("sbatch") is None or subprocess.run(["sinfo"], capture_output=True).returncode:
        pytest.skip("no Slurm answers here (sbatch, sinfo): the scripts of docs/cluster.md are not tried")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(PAGE.parents[1]))
    Path("sweep.toml").write_text(SWEEP)
    Path("task.sh").write_text(script().replace("--array=1-3", "--array=1-2"))
    job = said("sbatch", "--parsable", "task.sh")
    merge = said(
        "sbatch", "--parsable", f"--dependency=afterok:{job}", "--output=merge.log",
        "--wrap", "bbp sweep --config sweep.toml --merge",
    )  # fmt: skip
    first = Path("p2-1.log")
    try:
        assert waited(lambda: list(Path().glob("p2.h5.parts/*.npz")), 300)
        said("scancel", "--batch", "--signal=USR1", f"{job}_1")
        assert waited(lambda: "samples are kept" in first.read_text(), 60)
        assert waited(Path("p2.h5").exists, 900), first.read_text()
    finally:
        subprocess.run(["scancel", job, merge], capture_output=True)
    told = first.read_text()
    assert told.index("time is nearly over: again") < told.index("task 1, start 2") < told.index("is done")
    said(sys.executable, "-m", "bbp.sweep", "--config", "sweep.toml", "--out", "alone.h5", "--processes", "1")
    here, there = dataset.open("alone.h5"), dataset.open("p2.h5")
    for name in ("eigenvalues", "overlaps", "residuals", "status"):
        np.testing.assert_array_equal(here[name], there[name])
