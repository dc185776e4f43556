"""Modules of the user's folder that are named as ours, or as Python's, do a program no harm."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run(folder, *words):
    # The folder stands before the package on the path, as the current directory does for `python -m`.
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_a_program_takes_no_module_of_the_user_s(tmp_path):
    """Of the folder in which it is started: neither one named as ours nor as one of Python's."""
    (tmp_path / "theory").mkdir()
    for name in ("theory/__init__", "sims", "json", "multiprocessing", "typing", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('theirs')")
    words = [
        "bbp.sweep",
        "--n",
        "12",
        "--alpha-grid",
        "1",
        "--samples",
        "2",
        "--workers",
        "1",
        "--quiet",
        "--out",
        "x.h5",
    ]
    done = run(tmp_path, "-m", *words)
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "x.h5").exists()


def test_a_folder_without_modules_does_no_harm(tmp_path):
    (tmp_path / "sims").mkdir()
    done = run(tmp_path, "-m", "bbp.info", "x.h5")
    assert done.returncode == 2 and "no such file" in done.stderr
