"""Building: as pyproject.toml says, and with the commit in bbp/commit.txt, of a source archive and of a wheel, also one made
from that archive."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
PLACE = Path("bbp", "commit.txt")


def commit(source: Path) -> str:
    """The commit of a checkout, "+" added if tracked files differ; what a source archive says of its own; else nothing."""
    if not (source / ".git").exists():
        return (source / PLACE).read_text().strip() if (source / PLACE).is_file() else ""
    # GIT_DIR and its like name another repository
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        head, changes = (
            subprocess.run(
                ["git", "-C", str(source), *words], capture_output=True, text=True, check=True, env=clean
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("+" if changes else "")


def note(tree: str) -> None:
    """Write the commit into a tree of the package."""
    if found := commit(HERE):
        place = Path(tree, PLACE)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)  # a link to the source, perhaps
        place.write_text(found + "\n")


class Build(build_py):
    """Copies the packages, then writes down where they come from."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            note(self.build_lib)


class Archive(sdist):
    """Copies the sources, then writes down where they come from."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        note(base_dir)


setup(cmdclass={"build_py": Build, "sdist": Archive})
