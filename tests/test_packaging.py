"""What a package needs beside code: one list of dependencies, an archive with everything and its commit, a workflow that names
what there is."""

import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import setuptools
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = {"matplotlib": "matplotlib-base"}  # the same package without its windows


def recipe():
    """conda-build's recipe, its templates filled in with their own names."""
    lines = (ROOT / "recipe" / "meta.yaml").read_text().splitlines()
    return yaml.safe_load(
        re.sub(r"\{\{ ?(\w+) ?\}\}", r"\1", "\n".join(line for line in lines if not line.startswith("{%")))
    )


def test_the_recipe_wants_what_pip_wants():
    split = [re.fullmatch(r"([\w-]+)(>=.*)", line).groups() for line in PROJECT["dependencies"]]
    wanted = {f"{CONDA.get(name, name)} {least}" for name, least in split}
    run = set(recipe()["requirements"]["run"])
    assert run == wanted | {f"python {PROJECT['requires-python']}"}
    assert recipe()["build"]["entry_points"] == [f"bbp = {PROJECT['scripts']['bbp']}"]


def test_the_workflow_runs_what_there_is():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    said = "\n".join(step.get("run", "") for step in steps)
    for script in re.findall(r"(?:python )?((?:run\.py|\.ci/\w+))", said):
        assert (ROOT / script).is_file()
    assert {"run.py test", "run.py docs"} <= set(re.findall(r"run\.py \w+", said))
    least = PROJECT["requires-python"].removeprefix(">=")
    assert (
        len(jobs["test"]["strategy"]["matrix"]["python"]) == 3
        and least in jobs["test"]["strategy"]["matrix"]["python"]
    )
    assert jobs["release"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(jobs["release"]["needs"]) == set(jobs) - {"release"}


@pytest.fixture
def building(monkeypatch):
    monkeypatch.setattr(setuptools, "setup", lambda **words: None)
    return runpy.run_path(str(ROOT / "setup.py"))["commit"]


def test_the_commit_is_of_this_checkout_or_of_the_archive(building, tmp_path, monkeypatch):
    def git(*words):
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(
            ["git", *name, "-C", tmp_path, *words], capture_output=True, text=True, check=True
        ).stdout

    assert building(tmp_path) == ""
    (tmp_path / "bbp").mkdir()
    (tmp_path / "bbp" / "commit.txt").write_text("0123abc\n")
    assert building(tmp_path) == "0123abc"
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    head = git("rev-parse", "HEAD").strip()
    assert building(tmp_path) == head
    monkeypatch.setenv("GIT_DIR", str(ROOT / "nowhere"))
    assert building(tmp_path) == head
    monkeypatch.delenv("GIT_DIR")
    (tmp_path / "bbp" / "commit.txt").write_text("else\n")
    assert building(tmp_path) == head + "+"


@pytest.mark.slow
def test_an_archive_holds_what_is_tracked_and_builds_a_wheel_of_its_commit(building, tmp_path):
    pytest.importorskip("build", reason="pip install build: it fetches setuptools, too")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", tmp_path, ROOT], check=True, capture_output=True
    )
    (archive,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    with tarfile.open(archive) as held:
        names = {name.partition("/")[2] for name in held.getnames()}
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True)
    assert set(tracked.stdout.split()) - {".gitignore"} <= names
    with zipfile.ZipFile(wheel) as held:
        assert held.read("bbp/commit.txt").decode().strip() == building(ROOT)


def test_programs_that_lack_what_they_need_say_so():
    """As after `pip install --no-deps` beside NumPy and SciPy, with which theory works (theory/test_alone.py)."""
    program = (
        "import runpy, sys\nsys.modules.update(dict.fromkeys(['jax', 'h5py', 'pandas', 'xarray', 'matplotlib', 'tqdm']))\n"
        "sys.argv = ['bbp', 'sweep']\nrunpy.run_module('bbp', run_name='__main__')"
    )
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    said = r"bbp: error: \w+ is not installed: the programs need all .*\n"
    assert found.returncode == 1 and re.fullmatch(said, found.stderr)
