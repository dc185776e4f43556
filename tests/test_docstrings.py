"""Every public definition says what it is; every exported function shows its use, and what it shows is true."""

import ast
import doctest
import importlib
import inspect
from functools import cache
from pathlib import Path

import pytest

import sims
import theory
import theory.finite
import theory.general

ROOT = Path(__file__).parents[1]
FILES = sorted(path for name in ("theory", "sims", "bbp") for path in (ROOT / name).rglob("*.py"))

PACKAGES = theory, theory.general, theory.finite, sims
# what users call beside the exports of these
USED = {
    "theory.finite.edge": ["finite_edge", "kernel_variance", "pole_probability"],
    "theory.finite.tracy_widom": [
        "tracy_widom_cdf",
        "tracy_widom_pdf",
        "tracy_widom_quantile",
        "tracy_widom_scale",
        "tracy_widom_sf",
    ],
    "sims.dynamics.methods": ["Descent"],
    "sims.dynamics.problem": ["Matrix"],
    "theory.path.deferred": ["Deferred"],
    "theory.general.spectral_methods": [
        "optimal",
        "optimal_at",
        "preprocessing_law",
        "spectral_edge",
        "spectral_outlier",
        "spectral_threshold",
        "subset",
        "trimmed",
    ],
    "sims.solvers.dense": ["lowest_dense"],
    "sims.density": ["lanczos_quadrature"],
    "sims.hessian": ["dense", "hessian"],
    "sims.checks": ["samples_of"],
    "sims.krylov.solver": ["lowest_krylov"],
    "sims.operator": ["hessian_operator"],
    "sims.sampling": ["sample_grid", "sample_point"],
    "sims.signal": ["overlaps", "signal_vectors"],
}


@cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def definitions(node, prefix=""):
    """Functions and classes of a module and of its classes, with their names; private ones and their contents left out."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.ClassDef) and not child.name.startswith("_"):
            yield prefix + child.name, child
            if isinstance(child, ast.ClassDef):
                yield from definitions(child, f"{prefix}{child.name}.")


def test_every_public_definition_has_a_docstring():
    found = [(path, name, node) for path in FILES for name, node in definitions(tree(path))]
    assert len(found) > 500
    bare = [f"{path.relative_to(ROOT)}: {name}" for path, name, node in found if not ast.get_docstring(node)]
    bare += [str(path.relative_to(ROOT)) for path in FILES if not ast.get_docstring(tree(path))]
    assert bare == []


def exported():
    for package in PACKAGES:
        for name in package.__all__:
            if inspect.isfunction(getattr(package, name)):
                yield f"{package.__name__}.{name}", getattr(package, name)
    for module, names in USED.items():
        for name in names:
            yield f"{module}.{name}", getattr(importlib.import_module(module), name)


def test_every_exported_function_shows_its_use():
    assert [name for name, function in exported() if ">>>" not in (function.__doc__ or "")] == []


def with_examples():
    return [path for path in FILES if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", with_examples(), ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_are_true(path, monkeypatch):
    """By the text of the docstrings, so that decorated functions are not passed over."""
    monkeypatch.chdir(ROOT)
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    parsed, runner = tree(path), doctest.DocTestRunner(verbose=False)
    for name, node in [("module", parsed), *definitions(parsed)]:
        example = doctest.DocTestParser().get_doctest(
            ast.get_docstring(node) or "", dict(vars(module)), name, str(path), 0
        )
        told: list[str] = []
        runner.run(example, out=told.append)
        assert not told, "".join(told)
    assert runner.tries > 0
