"""Objects of one's own (activations, losses, targets, covariances, observables, starts): from FILE.py:NAME or
package.module:NAME, as text in records, and back; and inputs, of which a record has the file and a digest.

A record keeps the name of such an object and the hash of its source. The text of a record remembers the object while it lives,
and takes it along to other processes, so that what is computed there needs no file. A record that was read from a file finds
the object by its hash among those that this program has seen, or by its name where that says where it lies.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from bbp.console.messages import FileError
from bbp.files import disk
from bbp.files.inputs import inputs as read_inputs
from theory.checks import ParameterError, finite, shown
from theory.model.activations import ACTIVATIONS, Activation, Target
from theory.model.covariance import OWN, Covariance
from theory.model.inputs import Inputs
from theory.model.losses import LOSSES, Loss


@dataclass(frozen=True)
class Function:
    """A function that a run calls with some of the things that it has, by the names of its arguments.

    rows   students in numbers (p, N), or (samples, p, N), that the function gives, as a start; else None
    """

    name: str
    value: Callable[..., Any] = field(compare=False, repr=False)
    source: str = ""
    rows: Any = field(default=None, compare=False, repr=False)

    def __call__(self, **things: Any) -> Any:
        """Call it with those of these things that it takes."""
        wanted = inspect.signature(self.value).parameters
        return self.value(**{name: thing for name, thing in things.items() if name in wanted})


Entry = Activation | Loss | Target | Covariance | Function | Inputs
# Parts of a model, each by its name there.
KINDS: dict[str, type] = {
    "activation": Activation,
    "teacher_activation": Activation,
    "loss": Loss,
    "target": Target,
    "covariance": Covariance,
    "inputs": Inputs,
}
# What a run calls, with what a function of each kind may take.
CALLED: dict[str, tuple[str, ...]] = {
    "observable": ("values", "vectors", "teacher", "student"),
    "start": ("teacher", "student", "data", "y", "sample"),
}
_TABLES: dict[type, Mapping[str, Any]] = {Activation: ACTIVATIONS, Loss: LOSSES}
_LIBRARIES = {"jax", "numpy", "scipy", "sims", "theory", "bbp"}  # their versions are recorded
_LARGEST_FILE = 2**22
_seen: dict[str, dict[str, Entry]] = {}  # by hash of the source, and name


class Text(str):
    """The name of an object of one's own, with the object: text in JSON and files, the object in other processes."""

    entry: Entry

    def __new__(cls, entry: Entry) -> Text:
        """The name of the entry."""
        text = super().__new__(cls, entry.name)
        text.entry = entry
        return text

    @property
    def short(self) -> str:
        """The name without the place where the object lies: that of a variable."""
        return self.rpartition(":")[2]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if isinstance(self.entry, Inputs) and isinstance(self.entry.rows, np.memmap):
            return _mapped, (
                self.entry.name,
                self.entry.source,
            )  # a file is opened where it is needed, not sent
        return _unpacked, (_packed(self.entry),)


@functools.lru_cache(maxsize=64)
def _packed(entry: Entry) -> bytes:
    return cloudpickle.dumps(entry)


# One object however many units bring it: programs compiled for it are found again.
@functools.lru_cache(maxsize=64)
def _unpacked(packed: bytes) -> Text:
    return Text(_remembered(cloudpickle.loads(packed)))


def _mapped(name: str, source: str) -> Text:
    return Text(found("inputs", name, source))


def recorded(entry: Entry) -> Entry:
    """The entry of a table as it is, one of one's own with the hash of its source; ParameterError if a table has its name.

    >>> recorded(ACTIVATIONS["tanh"]) is ACTIVATIONS["tanh"]
    True
    """
    if isinstance(entry, Inputs):
        return _remembered(entry)
    table = _TABLES.get(type(entry), {})
    if table.get(entry.name) is entry or entry.source or entry.value is None:
        return entry
    if entry.name in table:
        raise ParameterError(
            f"{type(entry).__name__.lower()} {entry.name!r} of one's own must have a name of its own"
        )
    return _remembered(replace(entry, source=_hash(entry)))


def read(kind: str, value: Any) -> str | None:
    """The object that `value` is, or names as FILE.py:NAME or package.module:NAME; None for other text, and one of a table.

    A covariance that a module holds in numbers is the text that describes it.

    Raises ParameterError where there is no such object, and where it is none of this kind.
    """
    if isinstance(value, Text):
        return value
    if isinstance(value, Entry):
        entry = recorded(_fit(kind, value))
        return Text(entry) if entry.source else None
    if kind == "start" and isinstance(value, list | np.ndarray):
        return Text(recorded(_made(kind, "array", value)))
    if kind == "inputs":
        return Text(recorded(read_inputs(value)))
    if callable(value):
        return Text(recorded(_of_function(kind, getattr(value, "__name__", "function"), value)))
    if not isinstance(value, str) or ":" not in value:
        return None
    entry = _loaded(kind, value)
    return entry.spec if isinstance(entry, Covariance) and not entry.source else Text(entry)


def found(kind: str, name: Any, source: str) -> Entry:
    """The object that stored options name; where it cannot be found, or has changed, one that knows its name alone."""
    if isinstance(name, Text):
        return name.entry
    if source not in _seen and (":" in name or kind == "inputs"):
        try:
            read(kind, name)
        except (ParameterError, FileError) as error:
            return _absent(kind, name, source, str(error))
    if held := _seen.get(source):
        return held.get(str(name)) or _remembered(replace(next(iter(held.values())), name=str(name)))
    reason = "its source is another now" if ":" in name or kind == "inputs" else "it was given as an object"
    return _absent(kind, name, source, reason)


def known(kind: str, name: Any) -> Text | None:
    """The last object of this name that this program has seen, if any."""
    if isinstance(name, Text):
        return None if is_absent(name.entry) else name
    seen = [held[name] for held in _seen.values() if name in held]
    return next((Text(entry) for entry in reversed(seen) if isinstance(entry, KINDS[kind])), None)


def is_absent(entry: Entry) -> bool:
    """Whether the object could not be found: its name is all that is known."""
    return isinstance(entry.rows if isinstance(entry, Inputs) else entry.value, _Absent)


class _Absent:
    """Stands for the functions of an object that cannot be found: calling it raises ParameterError, in one line."""

    absent = True
    shape: tuple[int, ...] = ()

    def __init__(self, words: str):
        self.words = words

    def __call__(self, *args: Any) -> Any:
        raise ParameterError(self.words)

    __getitem__ = __call__


def _absent(kind: str, name: str, source: str, reason: str) -> Entry:
    option, where = kind.replace("_", "-"), "FILE" if kind == "inputs" else "FILE.py:NAME"
    call = _Absent(f"this needs the {kind.replace('_', ' ')} {name!r}: give --{option} {where} ({reason})")
    if kind == "inputs":
        call.shape = tuple(int(size) for size in source.partition(",")[0].split(" x "))
        return Inputs(name, source, call, np.zeros(call.shape[1]) if ", centred" in source else None, 1.0)
    entry: Any = object.__new__(KINDS[kind])  # nothing of it can be checked
    parts = {"name": name, "value": call, "source": source}
    if KINDS[kind] is Covariance:
        parts |= {"kind": OWN, "parameters": ()}
    else:
        parts |= {"first": call, "second": call}
    more = {"infimum": 0.0} if KINDS[kind] is Activation else {}
    for part, value in (parts | more).items():
        object.__setattr__(entry, part, value)
    return entry


def _loaded(kind: str, text: str) -> Entry:
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        raise ParameterError(f"{kind} must be FILE.py:NAME or package.module:NAME, got {shown(text)}")
    try:
        if place.endswith(".py"):
            path = Path(place).expanduser()
            module = _executed(kind, place, str(path.resolve()), disk.read_bytes(path, _LARGEST_FILE))
        else:
            module = importlib.import_module(place)
    except FileError as error:
        raise FileError(f"{kind}: {error}") from None
    except ParameterError:
        raise
    except Exception as error:
        raise ParameterError(f"{kind}: no module {place!r}: {shown(error)}") from None
    if not hasattr(module, name):
        raise ParameterError(f"{kind}: {place!r} has no {name!r}")
    made: Any = _made(kind, name, getattr(module, name))
    if made.value is None:  # a law in numbers, which a record holds as they are
        return made
    return _remembered(replace(_fit(kind, made), name=text, source=_hash(made)))


def _made(kind: str, name: str, value: Any) -> Entry:
    """The entry of an object that a module holds."""
    if isinstance(value, Entry):
        return _fit(kind, value)
    if callable(value):
        return _of_function(kind, name, value)
    if isinstance(value, list | tuple | np.ndarray) and kind == "covariance":
        return Covariance.of(value)
    if isinstance(value, list | tuple | np.ndarray) and kind == "start":
        rows = np.asarray(finite(kind, value))
        if rows.ndim in (2, 3):
            return Function(name, functools.partial(_row, rows), rows=rows)
    raise ParameterError(f"{kind}: {name!r} must be {_expected(kind)}, got {shown(value)}")


@functools.lru_cache(maxsize=16)
def _executed(kind: str, place: str, path: str, content: bytes) -> types.ModuleType:
    """The module of a file. It stays out of sys.modules: its functions then go to other processes as they are, not by name."""
    module = types.ModuleType(f"_own_{hashlib.sha256(path.encode()).hexdigest()[:12]}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses look here while it runs
    try:
        exec(compile(content, path, "exec"), module.__dict__)
    except Exception as error:
        raise ParameterError(f"{kind}: {place!r} fails: {type(error).__name__}: {shown(error)}") from None
    finally:
        del sys.modules[module.__name__]
    return module


def _row(rows: np.ndarray, sample: int) -> np.ndarray:
    if rows.ndim == 3 and sample >= len(rows):
        raise ParameterError(f"the array of starts has {len(rows)} students, none for sample {sample}")
    return rows[sample] if rows.ndim == 3 else rows


@functools.lru_cache(maxsize=16)
def _of_function(kind: str, name: str, value: Any) -> Entry:
    """What sims makes of a plain function."""
    if not isinstance(value, types.FunctionType) and not hasattr(value, "__wrapped__"):
        raise ParameterError(
            f"{kind} must be {_expected(kind)}, written with def or lambda, got {shown(value)}"
        )
    if kind in CALLED:
        _check_arguments(kind, name, value)
        return Function(name, value)
    if KINDS[kind] is Covariance:
        return Covariance.of_function(name, value)
    from sims import functions  # late: JAX, which differentiates it

    if KINDS[kind] is Target:
        return functions.target_of(name, value)
    if KINDS[kind] is Loss:
        return functions.loss_of(name, value, has_a=len(inspect.signature(value).parameters) > 2)
    return functions.activation_of(name, value)


def _check_arguments(kind: str, name: str, value: Any) -> None:
    """ParameterError unless the function can be called with what a run has of this kind."""
    known = CALLED[kind]
    for each in inspect.signature(value).parameters.values():
        needed = each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        if (needed and each.name not in known) or each.kind is each.POSITIONAL_ONLY:
            raise ParameterError(
                f"{kind} {name} may take {', '.join(known)}, by these names, got {shown(each.name)}"
            )


def _expected(kind: str) -> str:
    return {
        "loss": "a Loss or a function of y, yhat and a",
        "target": "a Target or a function of p_star numbers",
        "covariance": "eigenvalues, a Covariance or a function of N that gives N eigenvalues",
        "observable": f"a function of some of {', '.join(CALLED['observable'])}",
        "start": f"students (p, N) or a function of some of {', '.join(CALLED['start'])}",
    }.get(kind, "an Activation or a function of one number")


def _fit(kind: str, entry: Entry) -> Entry:
    if not isinstance(entry, KINDS.get(kind, Function)):
        raise ParameterError(f"{kind} must be {_expected(kind)}, got {shown(entry)}")
    return entry


def _remembered(entry: Entry) -> Entry:
    """The one that was seen first of those with this source and name."""
    return _seen.setdefault(entry.source, {}).setdefault(entry.name, entry)


def _hash(entry: Any) -> str:
    """Of the statements that define the functions of an entry, and of the functions and constants that these name."""
    said: dict[type, tuple[str, ...]] = {
        Loss: ("has_a", "positive"),
        Activation: ("parity", "infimum"),
        Target: ("infimum", "supremum", "attained"),
    }
    parts = [repr(tuple(getattr(entry, name) for name in said.get(type(entry), ())))]
    done: set[int] = set()
    for part in ("value", "first", "second"):
        parts += _sources(getattr(entry, part, None), done)
    if isinstance(entry, Function) and entry.rows is not None:
        parts += [str(entry.rows.shape), hashlib.sha256(entry.rows.tobytes()).hexdigest()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _sources(function: Any, done: set[int]) -> Iterator[str]:
    """Text of a function and of what it refers to; of those of libraries only what they hold of one's own."""
    if id(function) in done:
        return
    done.add(id(function))
    if hasattr(function, "__wrapped__"):
        yield from _sources(function.__wrapped__, done)
    if not isinstance(function, types.FunctionType):
        return
    own = (function.__module__ or "").partition(".")[0] not in _LIBRARIES
    if own:
        yield _statement(function)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield from _value(name, cell.cell_contents, done, plain=own)
    if own:
        for name in sorted(_names(function.__code__) & set(function.__globals__)):
            yield from _value(name, function.__globals__[name], done, plain=True)


def _value(name: str, value: Any, done: set[int], *, plain: bool) -> Iterator[str]:
    if isinstance(value, types.FunctionType) or hasattr(value, "__wrapped__"):
        yield from _sources(value, done)
    elif plain and hasattr(value, "__array__") and not isinstance(value, type):
        yield f"{name} = {np.asarray(value).tolist()!r}"
    elif plain and isinstance(value, bool | int | float | complex | str | tuple | list | dict):
        yield f"{name} = {value!r}"


def _names(code: types.CodeType) -> set[str]:
    inner = (_names(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*inner) - set(dir(builtins))


def _statement(function: types.FunctionType) -> str:
    """The statement of a module or cell in which a function is defined, without comments; its code where no text is kept."""
    line = function.__code__.co_firstlineno
    try:
        tree = ast.parse("".join(inspect.findsource(function)[0]))
    except (OSError, SyntaxError, TypeError):
        return f"{function.__code__.co_code!r} {function.__code__.co_consts!r}"
    first = (
        min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        for node in tree.body
    )
    held = [node for node, at in zip(tree.body, first, strict=True) if at <= line]
    return ast.unparse(held[-1]) if held else ""
