"""Building a wheel: as pyproject.toml says, and with the commit it is built from in bbp/commit.txt."""

from __future__ import annotations

import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


def commit(checkout: Path) -> str:
    """The commit of a checkout, "+" added if tracked files differ; nothing outside one."""
    if not (checkout / ".git").exists():
        return ""
    try:
        head, changes = (
            subprocess.run(
                ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("+" if changes else "")


class Build(build_py):
    """Copies the packages, then writes down where they come from."""

    def run(self) -> None:
        super().run()
        found = commit(Path(__file__).resolve().parent)
        if found and not self.editable_mode:
            place = Path(self.build_lib, "bbp", "commit.txt")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(found + "\n")


setup(cmdclass={"build_py": Build})
