"""What a page shows: a value for each of its controls, checked, and its words (link, command, Python lines).

A control is a field of `State` and a row of CONTROLS: the page makes its widgets of that table, a link its query.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode

from bbp.experiments import models, own
from theory.checks import ParameterError, choice, shown
from theory.model.activations import ACTIVATIONS
from theory.model.losses import LOSSES
from theory.model.network import Network

# Stops of p, rows of the phase diagram.
WIDTHS = 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 128, 512, math.inf
COVARIANCES = (
    "identity", "power:0.5", "power:1", "power:1.5", "mp:0.2", "mp:0.5", "mp:1", "levels:0.4@0.667,2.2@0.333"
)  # fmt: skip
LONGEST = 80  # characters of a value: longer ones are refused before they are read


@dataclass(frozen=True)
class Control:
    """One control of the page.

    name                 of the field of State, which has the value of a fresh page
    label, about         what the page calls it, one sentence
    scale                "log", "linear", "stops" (the slider steps through `stops`; other values may be typed), "choice", or
                         "numbers" (text of a number for each student, empty for none)
    low, high            bounds of the value, of the slider too unless `slider` gives others
    whole, infinite      whether it is a whole number, whether inf is allowed
    stops                values of a slider of scale "stops"
    slider               (low, high) of the slider
    options              texts of scale "choice"
    """

    name: str
    label: str
    about: str
    scale: str = "choice"
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    infinite: bool = False
    stops: tuple[float, ...] = ()
    slider: tuple[float, float] | None = None
    options: tuple[str, ...] = ()

    @property
    def default(self) -> Any:
        """The value of a fresh page."""
        return getattr(State(), self.name)

    def checked(self, value: Any) -> int | float | str:
        """`value` (a number or text of one, or an option) within the bounds; ParameterError, one line, otherwise."""
        if self.options:
            mine = own.known(self.name, value) if self.name in own.KINDS else None
            if mine is None and isinstance(value, str) and ":" in value and value not in self.options:
                raise ParameterError(
                    f"{self.label} {shown(value)} is not at hand: start with bbp explore --{self.name} FILE.py:NAME"
                )
            return mine or choice(self.label, value, self.options)
        if self.scale == "numbers":
            return self._numbers(value)
        number = self._number(value)
        if math.isinf(number) and number > 0 and self.infinite:
            return math.inf
        if self.whole and not (math.isfinite(number) and number == int(number)):
            wanted = "a whole number" + (" or inf" if self.infinite else "")
            raise ParameterError(f"{self.label} must be {wanted}, got {shown(value)}")
        if not self.low <= number <= self.high:
            raise ParameterError(
                f"{self.label} must lie between {self.low:g} and {self.high:g} here"
                + (", or be inf" if self.infinite else "")
                + f", got {shown(value)}"
            )
        return int(number) if self.whole else number

    def _numbers(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > LONGEST:
            raise ParameterError(f"{self.label} must be numbers such as 1,-0.5, got {shown(value)}")
        text = models.student_numbers(self.label, value) if value.strip() else ""
        if any(not self.low <= float(part) <= self.high for part in text.split(",") if part):
            raise ParameterError(
                f"{self.label} must be numbers between {self.low:g} and {self.high:g}, got {shown(value)}"
            )
        return ",".join(plain(float(part)) for part in text.split(",") if part)

    def _number(self, value: Any) -> float:
        if isinstance(value, str) and len(value) <= LONGEST:
            text = value.strip().replace("∞", "inf")
            try:
                found = float(text)
            except ValueError:
                found = None
            if found is not None and (math.isfinite(found) or text.lstrip("+-")[:1].isalpha()):
                return found  # 1e400 is no way to write infinity
        elif isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                pass
        raise ParameterError(f"{self.label} must be a number, got {shown(value)}")

    def described(self) -> dict[str, Any]:
        """The row as JSON wants it: infinity is the text "inf"."""
        row = asdict(self)
        row["stops"] = [text_of(value) for value in self.stops]
        row["slider"] = list(self.slider or (self.low, self.high))
        row["default"] = text_of(self.default)
        return row


@dataclass(frozen=True)
class State:
    """A value for every control; hashable. `State.of` checks, the constructor does not."""

    p: int | float = 2
    p_star: int = 1
    a: float = 0.3
    alpha: float = 2.0
    n: int = 400
    activation: str = "quadratic"
    loss: str = "normalised"
    covariance: str = "identity"
    noise: float = 0.0
    overlap: float = 0.0
    readout: str = ""
    bias: str = ""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> State:
        """The state with these values, defaults elsewhere. Raises ParameterError on a bad value or an unknown name."""
        unknown = [name for name in values if name not in BY_NAME]
        if unknown:
            known = ", ".join(BY_NAME)
            raise ParameterError(f"no control is called {shown(unknown[0])}; there are {known}")
        checked: dict[str, Any] = {name: BY_NAME[name].checked(value) for name, value in values.items()}
        return cls(**checked)

    @classmethod
    def of_query(cls, arguments: Mapping[str, Sequence[bytes]]) -> tuple[State, str]:
        """The state of a link, and what was wrong with the link in words ("" if nothing): bad values take defaults.

        arguments: names and raw values, as Tornado hands them on.
        """
        values, wrong = {}, []
        for name, given in arguments.items():
            try:
                text = given[-1].decode("utf-8", "replace")
                values[name] = getattr(cls.of({name: text}), name)
            except ParameterError as error:
                wrong.append(str(error))
        return cls(**values), ("In the link: " + "; ".join(wrong[:3]) + ".") if wrong else ""

    @property
    def model(self) -> Network:
        """The model of the state. Raises ParameterError where they clash."""
        given = {control.name: getattr(self, control.name) for control in OPTIONS if self.changed(control)}
        return models.make(self.p, self.p_star, self.a, given)

    @property
    def quadratic(self) -> bool:
        """Whether this is the quadratic committee without options."""
        return not any(self.changed(control) for control in OPTIONS)

    def changed(self, control: Control) -> bool:
        """Whether a control stands at another value than its default."""
        return getattr(self, control.name) != control.default

    def values(self) -> dict[str, int | float | str]:
        """Every value as JSON wants it, options included."""
        return {name: text_of(getattr(self, name)) for name in BY_NAME}

    def query(self) -> str:
        """The query of a link to this state: "p=2&p_star=1&a=0.3&alpha=2&n=400"."""
        names = [c.name for c in CONTROLS if c not in OPTIONS or self.changed(c)]
        return urlencode({name: plain(self.values()[name]) for name in names})


CONTROLS = (
    Control(
        "p", "p", "width of the student, a whole number or inf", "stops", 1, 512, whole=True, infinite=True,
        stops=WIDTHS,
    ),
    Control(
        "p_star", "p*", "width of the teacher, a whole number", "stops", 1, 64, whole=True, stops=tuple(range(1, 9))
    ),
    Control("a", "a", "normalisation of the loss, (y − ŷ)² / 2(a + y)", "log", 0.01, 100, slider=(0.01, 30)),
    Control("alpha", "α", "samples for each input dimension, M/N", "log", 0.1, 200, slider=(0.1, 50)),
    Control(
        "n", "N", "input dimension of finite-N curves and samples", "log", 20, 1_000_000, whole=True,
        slider=(50, 20_000),
    ),
    Control("activation", "activation", "of student and teacher", options=tuple(ACTIVATIONS)),
    Control("loss", "loss", "normalised is (y − ŷ)² / 2(a + y)", options=tuple(LOSSES)),
    Control("covariance", "covariance", "eigenvalues of the inputs' covariance", options=COVARIANCES),
    Control("noise", "Δ", "variance of noise on every preactivation of the teacher", "linear", 0, 10, slider=(0, 2)),
    Control("overlap", "m", "overlap that the students have with the teacher", "linear", -1, 1),
    Control(
        "readout", "c", "weights of the students' outputs, such as 1,-0.5; empty: their mean", "numbers", -100, 100
    ),
    Control(
        "bias", "b", "added to the students' preactivations, such as 0.5,0; empty: 0", "numbers", -100, 100
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Control] = {control.name: control for control in CONTROLS}
OPTIONS = CONTROLS[list(BY_NAME).index("activation") :]


def text_of(value: float | str) -> int | float | str:
    """`value`, or "inf" for infinity, which JSON lacks."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def plain(value: Any) -> str:
    """A value as one types it: 2 for 2.0, inf, all digits otherwise."""
    if isinstance(value, float) and abs(value) < 1e15 and value == int(value):
        return str(int(value))
    return str(value)


def command(state: State) -> str:
    """The command line that computes what is on the page: samples beside theory, or theory alone for p = inf."""
    words = _filled(COMMANDS["infinite" if math.isinf(state.p) else "finite"], state)
    given = [word for control in OPTIONS if state.changed(control) for word in _option(state, control)]
    return " ".join([words.removesuffix(OUT).rstrip(), *given, OUT])


def _option(state: State, control: Control) -> tuple[str, ...]:
    value = shlex.quote(plain(state.values()[control.name]))
    if control.scale == "numbers":  # which may begin with a minus
        return (f"--{control.name}={value}",)
    return f"--{control.name}", value


def python_lines(state: State) -> str:
    """Python lines that print the numbers on the page."""
    names = ["p", "p_star", "a", *(control.name for control in OPTIONS if state.changed(control))]
    given = [f"{name}={_python(name, getattr(state, name))}" for name in names]
    heads = [("math.inf", "import math\n"), ("own.read", "from bbp.experiments import own\n")]
    head = "".join(line for word, line in heads if any(word in value for value in given))
    lines = head + _LINES.replace("{model}", ", ".join(given)).replace("{alpha}", plain(state.alpha))
    return lines if state.model.is_committee else lines.removesuffix(_DENSITY)


def _python(name: str, value: Any) -> str:
    if isinstance(value, own.Text):
        return f"own.read({name!r}, {str(value)!r}).entry"
    if name in models.STUDENT_NUMBERS:
        return f"({value},)"
    return "math.inf" if isinstance(value, float) and math.isinf(value) else repr(value)


def _filled(template: str, state: State) -> str:
    for name, value in state.values().items():
        template = template.replace("{" + name + "}", plain(value))
    return template


OUT = "--out results/explore.h5"
COMMANDS = {
    "finite": "bbp sweep --alpha-grid {alpha} --p {p} --p-star {p_star} --a {a} --n {n} --samples 16 --seed 0 "
    + OUT,
    "infinite": "bbp phase --p inf --p-star {p_star} --a-grid {a} " + OUT,
}
_DENSITY = "\nprint(theory.density(model, alpha, left.value + 0.1))"
_LINES = (
    """import theory

model = theory.Network({model})
alpha = {alpha}
left = theory.edge(model, alpha)
print(theory.threshold(model))
print(left)
print(theory.outliers(model, alpha))"""
    + _DENSITY
)
LINES = {  # of a committee, for whoever fills in the values
    "finite": _LINES.replace("{model}", "p={p}, p_star={p_star}, a={a}"),
    "infinite": "import math\n" + _LINES.replace("{model}", "p=math.inf, p_star={p_star}, a={a}"),
}
