#!/usr/bin/env python3
"""Set everything up in a fresh clone, then do one job. Needs only Python 3.11 or newer with venv and pip.

    python3 run.py sweep [options of bbp.sweep]    the main job: theory, samples and their figure
    python3 run.py test [options of pytest]        lint, types and the whole test suite
    python3 run.py docs [options of sphinx]        the documentation, in docs/_build/html

The environment is made once, in .venv (or the directory named by BBP_VENV), from constraints.txt.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The README's first picture: below, at and above the threshold, in a minute.
MAIN_JOB = ("--alpha-grid", "0.4:2.6:12", "--p", "2", "--a", "0.3", "--n", "200,400")
# One process a core; an idle one takes over what another has not begun. `-n 0` among the options goes back to a single process.
PARALLEL = ("-n", "auto", "--maxprocesses", "8", "--dist", "worksteal")
BIN = "Scripts" if os.name == "nt" else "bin"


def environment(extra: str = "dev") -> Path:
    """Path of the environment's Python, made or renewed where pyproject.toml or constraints.txt changed; with an extra."""
    home = Path(os.environ.get("BBP_VENV", HERE / ".venv"))
    python = home / BIN / "python"
    stamp = home / f"hessian-bbp-{extra}.stamp"
    pinned = b"".join((HERE / name).read_bytes() for name in ("pyproject.toml", "constraints.txt"))
    wanted = hashlib.sha256(pinned + str(HERE).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"setting up {home} for {extra} (once, a few minutes)", flush=True)
    if not python.exists():
        venv.create(home, with_pip=True)
    install = [python, "-m", "pip", "install", "--quiet", "-c", "constraints.txt", "-e", f".[{extra}]"]
    call(*install)
    stamp.write_text(wanted)
    return python


def call(*command: str | Path) -> None:
    """Run in the repository's root; end with the command's own exit code where it fails."""
    code = subprocess.run([str(word) for word in command], cwd=HERE).returncode
    if code:
        sys.exit(code)


def sweep(python: Path, options: list[str]) -> None:
    """The sweep of the README and its figure; any option of `bbp.sweep` may follow."""
    if options:
        call(python, "-m", "bbp.sweep", *options)
        return
    (HERE / "results").mkdir(exist_ok=True)
    # One that was interrupted goes on where it was.
    call(python, "-m", "bbp.sweep", *MAIN_JOB, "--out", "results/first_light.h5", "--resume")
    call(python, "-m", "bbp.plot", "results/first_light.h5", "--out", "results/first_light.png", "--force")
    print("figure: results/first_light.png")


def test(python: Path, options: list[str]) -> None:
    """What must hold before anything lands: format, lint, types, tests."""
    if not options:
        call(python, "-m", "ruff", "format", "--check", ".")
        call(python, "-m", "ruff", "check", ".")
        call(python, "-m", "mypy")
    call(python, "-m", "pytest", *PARALLEL, *options)


def docs(python: Path, options: list[str]) -> None:
    """The site with its tutorials executed; warnings, broken references and broken links are errors."""
    build, source = HERE / "docs" / "_build", HERE / "docs"
    site = [python, "-m", "sphinx", "-n", "-W", "--keep-going", *options]
    call(*site, "-b", "html", "-d", build / "doctrees", source, build / "html")
    call(*site, "-q", "-b", "linkcheck", "-d", build / "doctrees", source, build / "links")
    print("site: docs/_build/html/index.html")


def main() -> None:
    jobs = {"sweep": sweep, "test": test, "docs": docs}
    if sys.version_info < (3, 11):  # noqa: UP036 - the very check that the rule takes for granted
        sys.exit(f"run.py needs Python 3.11 or newer, this is {sys.version.split()[0]}")
    if len(sys.argv) < 2 or sys.argv[1] not in jobs:
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    jobs[sys.argv[1]](environment("docs" if sys.argv[1] == "docs" else "dev"), sys.argv[2:])


if __name__ == "__main__":
    main()
