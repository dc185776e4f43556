"""A user's folder named theory or sims beside the work is told in one line, and does no harm where it is no package."""

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


def test_a_package_of_the_user_s_that_hides_ours(tmp_path):
    (tmp_path / "theory").mkdir()
    (tmp_path / "theory" / "__init__.py").write_text("raise SystemExit('theirs')")
    done = run(tmp_path, "-m", "bbp.info", "x.h5")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and str(tmp_path / "theory") in done.stderr
    assert "hides the package 'theory' that belongs to bbp" in done.stderr
    done = run(tmp_path, "-c", "import bbp.store")
    assert done.returncode == 1 and "ImportError" in done.stderr


def test_a_folder_without_modules_does_no_harm(tmp_path):
    (tmp_path / "sims").mkdir()
    done = run(tmp_path, "-m", "bbp.info", "x.h5")
    assert done.returncode == 2 and "no such file" in done.stderr
