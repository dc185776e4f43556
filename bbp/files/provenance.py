"""Where numbers come from: versions of the packages that decide them, the commit, the time."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bbp import __version__

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "h5py")
BUILT = "commit.txt"  # in a wheel: what it was built from (setup.py)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the numbers."""
    found = {"bbp": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def commit() -> str:
    """The commit of the checkout this runs from, "+" added if files differ; else the one its wheel is of; or "unknown"."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent
    if not (checkout / ".git").exists():
        built = package / BUILT
        return built.read_text().strip() if built.is_file() else "unknown"
    # GIT_DIR, GIT_WORK_TREE, ... of a hook or a script name another repository than the one that is asked about.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    questions = (
        [
            "ls-files",
            "--error-unmatch",
            "bbp/__init__.py",
        ],  # of whoever keeps a copy untracked, it is not the commit
        ["rev-parse", "HEAD"],
        ["status", "--porcelain", "--untracked-files=no"],
    )
    how: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "check": True,
        "timeout": 10,
        "env": environment,
    }
    try:
        _, head, changes = (
            subprocess.run(["git", "-C", checkout, *words], **how).stdout.strip() for words in questions
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return head + ("+" if changes else "")


def record(made: Iterable[Mapping[str, str]] = ()) -> dict[str, str]:
    """Attributes of a file: versions (JSON), commit, created (local time with zone).

    made   versions of what computed its parts; where some are others than ours, `other_versions` names them
    """
    own = versions()
    others = {json.dumps({name: each.get(name) for name in own}) for each in made} - {json.dumps(own)}
    return {
        "versions": json.dumps(own),
        "commit": commit(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    } | ({"other_versions": f"[{', '.join(sorted(others))}]"} if others else {})
