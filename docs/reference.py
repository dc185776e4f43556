"""The API reference: which objects are public, a page for each package, and the check that all of them are there."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

PACKAGES = ("theory", "sims", "bbp")
# Types in signatures that are not ours, and our type variables: they have no page here. What is ours must have one.
FOREIGN = [
    (r"py:(class|data|exc|attr|func)", r"(?!(theory|sims|bbp)\.).*"),
    (r"py:(class|obj)", r".*\.[A-Z]"),
]


class Module(NamedTuple):
    """A module and the names of its own public objects, in the order of its source."""

    name: str
    module: ModuleType
    names: tuple[str, ...]


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the three packages that defines something public."""
    found = []
    for package in PACKAGES:
        top = importlib.import_module(package)
        names = [package] + [m.name for m in pkgutil.walk_packages(top.__path__, package + ".")]
        for name in sorted(names):
            if name.endswith("__main__"):
                continue
            module = importlib.import_module(name)
            if own := _own(module):
                found.append(Module(name, module, own))
    return tuple(found)


def _own(module: ModuleType) -> tuple[str, ...]:
    """Public functions and classes that `module` defines itself."""
    own = {}
    for name, thing in vars(module).items():
        plain = inspect.unwrap(thing) if callable(thing) else thing
        if name.startswith("_") or not (inspect.isclass(plain) or inspect.isroutine(plain)):
            continue
        if getattr(plain, "__module__", None) == module.__name__ and getattr(plain, "__name__", name) == name:
            own[name] = plain.__code__.co_firstlineno if hasattr(plain, "__code__") else _line(plain)
    return tuple(sorted(own, key=lambda name: own[name]))


def _line(thing: Any) -> int:
    try:
        return inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return 0


@cache
def documented() -> frozenset[str]:
    """Full names of the objects that the reference holds."""
    return frozenset(f"{module.name}.{name}" for module in modules() for name in module.names)


def exported() -> dict[str, str]:
    """name as exported by a package's or module's __all__ -> full name where it is defined, for functions and classes."""
    found = {}
    for package in PACKAGES:
        top = importlib.import_module(package)
        for name in [package] + [m.name for m in pkgutil.walk_packages(top.__path__, package + ".")]:
            if name.endswith("__main__"):
                continue
            module = importlib.import_module(name)
            for export in getattr(module, "__all__", ()):
                thing = getattr(module, export)
                plain = inspect.unwrap(thing) if callable(thing) else thing
                if inspect.isclass(plain) or inspect.isroutine(plain):
                    found[f"{name}.{export}"] = f"{plain.__module__}.{plain.__qualname__}"
    return found


@cache
def resolve(text: str, module: str = "") -> str | None:
    """The documented object that a name in a docstring means, or None: "outlier", "theory.exact.outliers.outlier", "f(...)"."""
    name = text.partition("(")[0]
    if name in documented():
        return name
    for package in (module, module.rpartition(".")[0]):
        if f"{package}.{name}" in documented():
            return f"{package}.{name}"
    return exported().get(f"theory.{name}")


def write(folder: Path) -> None:
    """A page for each package of modules, in restructured text."""
    groups: dict[str, list[Module]] = {}
    for module in modules():
        parts = module.name.split(".")
        is_package = inspect.getsourcefile(module.module).endswith("__init__.py")
        package = module.name if is_package else ".".join(parts[:-1])
        groups.setdefault(package, []).append(module)
    folder.mkdir(parents=True, exist_ok=True)
    for package, members in groups.items():
        title = f"``{package}``"
        lines = [title, "=" * len(title), "", f".. py:currentmodule:: {package}", ""]
        lines += [f".. automodule:: {package}", "   :no-members:", ""]
        for module in members:
            lines += _section(module, package)
        _write(folder / f"{package}.rst", "\n".join(lines) + "\n")
    for old in set(folder.glob("*.rst")) - {folder / f"{package}.rst" for package in groups}:
        old.unlink()


def _section(module: Module, package: str) -> list[str]:
    lines = []
    if module.name != package:
        title = f"``{module.name}``"
        lines += [title, "-" * len(title), "", f".. automodule:: {module.name}", "   :no-members:", ""]
    for name in module.names:
        thing = getattr(module.module, name)
        if inspect.isclass(thing):
            lines += [f".. autoclass:: {module.name}.{name}", "   :members:", "   :undoc-members:", ""]
        else:
            lines += [f".. autofunction:: {module.name}.{name}", ""]
    return lines


def _write(path: Path, text: str) -> None:
    """Only where it changes, so that Sphinx reads again what is new."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def check(app, error) -> None:
    """After the build: every public object has an entry in the site's index of objects."""
    if error is not None or app.builder.name != "html":
        return
    held = set(app.env.domains["py"].objects)
    missing = sorted(documented() - held)
    if missing:
        raise RuntimeError(f"not in the reference: {', '.join(missing)}")
