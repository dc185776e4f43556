"""A table of small cases in one test. No test here.

`pytest.mark.parametrize` makes a test of each row, which costs some milliseconds and a line of report whatever the row does.
For rows by the hundred that take less, such as wrong inputs, `@cases` in its place makes one test of all. It goes on after a
row that fails and reports every one that did.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

SHOWN = 200  # characters of a row and of what is wrong with it


class Failures(AssertionError):
    """What failed, a line or more for each row."""


def cases(
    names: str | Iterable[str], rows: Iterable[Any], ids: Callable[..., object] | Iterable[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize` takes them: names, and a value of each (of the only one: the value) for every row.

    Several can stand above a test, for all combinations. Fixtures are shared by all rows.

    ids   what a row is called in the report: for each, or a function of a value
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [(row,) if len(names) == 1 else tuple(row) for row in rows]
    assert rows and all(len(row) == len(names) for row in rows)
    if ids is None or callable(ids):
        called = [", ".join(f"{(ids or repr)(value)!s:.60}" for value in row)[:SHOWN] for row in rows]
    else:
        called = [str(name) for name in ids]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(**fixtures: Any) -> None:
            failed: list[str] = []
            first: BaseException | None = None  # whose traceback is shown
            for name, row in zip(called, rows, strict=True):
                try:
                    test(**dict(zip(names, row, strict=True)), **fixtures)
                except Failures as error:  # of another table of this test
                    failed += [f"{name}, {line}" for line in error.args[0]]
                    first = first or error.__cause__
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(f"{name}: {type(error).__name__}: {str(error)[: 2 * SHOWN]}")
                    first = first or error
            if failed:
                raise Failures(failed) from first

        signature = inspect.signature(test)
        left = [value for name, value in signature.parameters.items() if name not in names]
        assert len(left) == len(signature.parameters) - len(names), names
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # pytest reads it for fixtures
        run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
        run.__module__, run.__dict__["pytestmark"] = test.__module__, getattr(test, "pytestmark", [])
        return run

    return decorate
