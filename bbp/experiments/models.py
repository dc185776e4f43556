"""A model as options and as plain data, in records, parts and files; the only place that turns one into the other.

Its parts are the options of `MODEL`, each with its reader and its default. Records hold only what differs from the quadratic
committee, so that those of before there were other models are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bbp.console.messages import FileError, log
from bbp.console.options import Option, Read, real
from bbp.experiments import own
from bbp.files import disk
from theory import spectrum, threshold
from theory.checks import NotConverged, ParameterError, named, shown
from theory.model.activations import ACTIVATIONS
from theory.model.covariance import Covariance, covariance
from theory.model.losses import LOSSES
from theory.model.network import Network

if TYPE_CHECKING:  # half a second, which --help need not wait for
    import xarray as xr

ALONG = "edge", "outlier", "overlap", "teacher_share", "student_share"  # of theory beside samples
STUDENT_NUMBERS = "readout", "bias"  # of a Network a tuple, here text
_LARGEST_FILE = 2**22
_APART = 0.04  # mean distance between eigenvalues drawn and those of theory, of which users are told
_MOST_LEVELS = 1000  # eigenvalues with shares: attributes of a file end at 64 KiB
_SPARE = 0.01  # that shares may miss 1 by, for want of digits


def activation(name: str, value: Any) -> str:
    """The name of an activation, which holds the object where it is one of one's own."""
    return _known(name, value, ACTIVATIONS)


def loss(name: str, value: Any) -> str:
    """The name of a loss, likewise."""
    return _known(name, value, LOSSES)


def _known(name: str, value: Any, table: Mapping[str, Any]) -> str:
    if type(value) is str and value in table:
        return value
    return own.read(name, value) or named(name, value, table)


def target(name: str, value: Any) -> str:
    """The name of a target of one's own, which holds the object: no table has any."""
    found = own.read(name, value)
    if found is None:
        raise ParameterError(f"{name} must be FILE.py:NAME or package.module:NAME, got {shown(value)}")
    return found


def variance(name: str, value: Any) -> float:
    """A variance: 0 or more."""
    found = real(name, value)
    if not 0 <= found < math.inf:
        raise ParameterError(f"{name} must be 0 or more and finite, got {shown(value)}")
    return found


def overlap(name: str, value: Any) -> float:
    """A number from -1 to 1."""
    found = real(name, value)
    if not -1 <= found <= 1:
        raise ParameterError(f"{name} must be a number from -1 to 1, got {shown(value)}")
    return found


def student_numbers(name: str, value: Any) -> str:
    """A number for each student, as text with commas between them.

    >>> student_numbers("readout", "1, -0.5")
    '1.0,-0.5'
    """
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    try:
        numbers = [math.nan if isinstance(part, bool) else float(part) for part in parts]
    except (TypeError, ValueError):
        numbers = []
    if not numbers or not all(map(math.isfinite, numbers)):
        raise ParameterError(f"{name} must be a number for each student such as 1,-0.5, got {shown(value)}")
    return _listed(numbers)


def _listed(numbers: Iterable[float]) -> str:
    return ",".join(map(repr, numbers))


def rows(name: str, value: Any) -> str:
    """The name of inputs of one's own, which holds them: of a file, an array or an Inputs."""
    found = own.read(name, value)
    assert found is not None
    return found


def inputs(name: str, value: Any) -> str:
    """The covariance of the inputs as text: levels, power, mp, a path after `file:`, whose numbers become levels, or the name
    of a function of one's own."""
    if isinstance(value, list):
        value = Covariance.of(value)
    if isinstance(value, str) and value.startswith("file:"):
        value = _levels(name, value.removeprefix("file:"))
    elif not isinstance(value, str) or (
        value.rpartition(":")[2].isidentifier() and value.partition(":")[0] not in ("levels", "power", "mp")
    ):
        value = own.read(name, value) or value
    if isinstance(value, own.Text):
        return value
    law = covariance(value)
    if len(law.parameters) > 2 * _MOST_LEVELS:
        raise ParameterError(
            f"{name} must have at most {_MOST_LEVELS} different eigenvalues, or be a function of N, got"
            f" {len(law.parameters) // 2}"
        )
    shares = [float(part.partition("@")[2]) for part in str(value).split(",") if "@" in part]
    if isinstance(value, str) and law.kind == "levels" and shares and abs(math.fsum(shares) - 1) > _SPARE:
        raise ParameterError(f"{name} must have shares that sum to 1, got {math.fsum(shares):g}")
    return law.spec


def _levels(name: str, path: str) -> str:
    try:
        held = disk.read_bytes(Path(path).expanduser(), _LARGEST_FILE).decode("utf-8-sig")
        lines = (line.partition("#")[0] for line in held.splitlines())
        values = np.array([float(word) for line in lines for word in line.replace(",", " ").split()])
    except FileError as error:
        raise FileError(f"{name}: {error}") from None
    except RuntimeError:  # ~ of nobody
        raise FileError(f"{name}: no home directory for {shown(path)}") from None
    except (ValueError, UnicodeDecodeError):
        raise ParameterError(f"{name} must name a file of numbers, got {shown(path)}") from None
    if not values.size or not np.all(np.isfinite(values)) or np.any(values < 0) or not values.sum() > 0:
        raise ParameterError(
            f"{name} must name a file of eigenvalues of at least 0, not all 0, got {shown(path)}"
        )
    levels, counts = np.unique(values / values.mean(), return_counts=True)
    return "levels:" + ",".join(
        f"{level!r}@{count / values.size!r}"
        for level, count in zip(levels.tolist(), counts.tolist(), strict=True)
    )


OWN = "one's own: FILE.py:NAME or package.module:NAME"
MODEL = (
    Option(
        "activation", "quadratic", activation,
        f"of the student: {', '.join(ACTIVATIONS)}; {OWN} (an Activation, or a function of one number)", metavar="NAME",
    ),
    Option("teacher_activation", None, activation, "of the teacher, likewise (that of the student)", metavar="NAME"),
    Option(
        "loss", "normalised", loss, f"{', '.join(LOSSES)}; {OWN} (a Loss, or a function of y, yhat and a)",
        metavar="NAME",
    ),
    Option(
        "noise", 0.0, variance, "variance of the noise added to every u_l, before the activation", metavar="DELTA"
    ),
    Option(
        "covariance", None, inputs,
        "of the inputs, scaled to mean 1: levels:0.4@0.667,2.2@0.333 (eigenvalue@share) | power:1.2 (eigenvalue ~ rank^-1.2"
        " over ranks from 1 to 100; power:1.2@1000: to 1000) | mp:0.5 | file:PATH of eigenvalues | one's own: FILE.py:NAME or"
        " package.module:NAME (eigenvalues, a Covariance, or a function of N that gives N eigenvalues)",
        metavar="SPEC",
    ),
    Option(
        "inputs", None, rows,
        "rows of one's own in the place of Gaussian ones: a matrix (samples, N) in FILE.npy, .npz, .csv, .txt or"
        " FILE.h5:/DATASET; columns are centred, but with raw:FILE; theory comes with a verdict on the rows",
        metavar="FILE",
    ),
    Option("overlap", 0.0, overlap, "m of each student row with a teacher row, from -1 to 1", metavar="M"),
    Option(
        "readout", None, student_numbers,
        "weights c of the students' outputs, one for each, written --readout=1,-0.5 (1/p)", metavar="C,C",
    ),
    Option(
        "bias", None, student_numbers,
        "added to the students' preactivations, one for each, written --bias=-0.5,0.5 (0)", metavar="B,B",
    ),
    Option(
        "target", None, target,
        f"the teacher's output as a function of all its preactivations, {OWN} (a Target, or a function of p_star numbers)",
        metavar="NAME",
    ),
)  # fmt: skip
DEFAULTS: dict[str, Any] = {option.name: option.default for option in MODEL}
READERS: dict[str, Read] = {option.name: option.read for option in MODEL}


def make(p: int | float, p_star: int, a: float, more: Mapping[str, Any]) -> Network:
    """The model of these options (those of DEFAULTS among `more`); ParameterError, with the reason, if there is none."""
    parts = {name: more[name] for name in DEFAULTS if more.get(name) is not None}
    for name in STUDENT_NUMBERS:
        if isinstance(parts.get(name), str):
            parts[name] = tuple(float(number) for number in parts[name].split(","))
    for name in own.KINDS:
        if isinstance(parts.get(name), own.Text):
            parts[name] = parts[name].entry
    return Network(p=p, p_star=p_star, a=a, **parts)


def passed(model: Any, asked: Mapping[str, Any]) -> Network:
    """A model that was passed as an object; ParameterError for another object, and for options that say otherwise."""
    if not isinstance(model, Network):
        raise ParameterError(f"model must be one of the theory's, such as theory.Network, got {shown(model)}")
    both = [name for name in ("p", "p_star", "a", "a_grid", *DEFAULTS) if name in asked]
    if both:
        raise ParameterError(f"{both[0]} is the model's: give the one or the other")
    unkept = {
        "gram": model.gram is not None,
        "output_noise": model.output_noise != 0,
        "overlap": isinstance(model.overlap, tuple),
    }
    for name in filter(unkept.get, unkept):
        wanted = "one number" if name == "overlap" else "left out"
        raise ParameterError(
            f"{name} must be {wanted} here: files keep no such model yet (sims.sample samples it)"
        )
    if math.isinf(model.p):
        raise ParameterError("p must be finite to sample, got inf (bbp phase knows p = inf)")
    parts: dict[str, Any] = {name: getattr(model, name) for name in own.KINDS}
    parts = {name: part and own.recorded(part) for name, part in parts.items()}
    return replace(model, **parts)


def build(record: Mapping[str, Any]) -> Network:
    """The model of a record or of a file's attributes; ValueError, KeyError or ParameterError if it has none."""
    p, p_star, a = (record[name] for name in ("p", "p_star", "a"))
    for value in (p, p_star, a):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{value!r} is no size of a model")
    more = {name: record[name] for name in DEFAULTS if name in record}
    for name in own.KINDS:
        if source := record.get(f"{name}_source"):
            more[name] = own.found(name, record[name], str(source))
    return make(p, p_star, a, more)


def of(found: xr.Dataset) -> Network:
    """The model of a result, from its attributes; ValueError, KeyError or ParameterError if it has none."""
    return build(found.attrs)


def record(model: Network) -> dict[str, Any]:
    """The model as plain data, from which `build` makes it again: widths, a, and what makes it no committee."""
    sizes = {"p": model.p, "p_star": model.p_star, "a": model.a}
    if model.is_committee:
        return sizes
    whole = model.record()
    whole |= {name: _listed(whole[name]) for name in STUDENT_NUMBERS if name in whole}
    for name in own.KINDS:
        if part := getattr(model, name):
            whole[name] = own.read(name, part) or whole[name]
    held = {name: whole[name] for name, value in DEFAULTS.items() if whole.get(name, value) != value}
    return sizes | held | sources(held)


def sources(record: Mapping[str, Any]) -> dict[str, str]:
    """Hashes of the objects of one's own in a record, each under the name of the object with _source."""
    texts = {name: record[name] for name in own.KINDS if isinstance(record.get(name), own.Text)}
    return {f"{name}_source": text.entry.source for name, text in texts.items()}


def lacking(model: Network) -> bool:
    """Whether an activation, loss or covariance of one's own is not at hand: stored numbers are all there is."""
    return any(own.is_absent(part) for name in own.KINDS if (part := getattr(model, name)))


def words(model: Network) -> str:
    """The model in words: "p=2 p*=1 a=0.3", and what makes it no committee.

    >>> words(Network(2, 1, 0.5))
    'p=2 p*=1 a=0.5'
    """
    held = record(model)
    sizes = [f"p={model.p}", f"p*={model.p_star}", *([f"a={model.a:g}"] if has_a(held) else [])]
    return " ".join([*sizes, *(f"{name}={short(value)}" for name, value in special(held).items())])


def has_a(record: Mapping[str, Any]) -> bool:
    """Whether the loss of a record has the parameter a.

    >>> has_a({"p": 2}), has_a({"p": 2, "loss": "squared"})
    (True, False)
    """
    name = record.get("loss") or DEFAULTS["loss"]
    if isinstance(name, own.Text) or "loss_source" in record:
        return bool(getattr(own.found("loss", name, str(record.get("loss_source", ""))), "has_a", True))
    return name not in LOSSES or LOSSES[name].has_a


def special(record: Mapping[str, Any]) -> dict[str, Any]:
    """What of a record makes its model no committee, by name.

    >>> special({"p": 2, "activation": "tanh", "noise": 0.0})
    {'activation': 'tanh'}
    """
    return {name: record[name] for name, value in DEFAULTS.items() if record.get(name) not in (None, value)}


def threshold_words(alpha: float, kind: str) -> str:
    """alpha_BBP with its kind, or that there is none, and why.

    >>> print(threshold_words(1.25, "continuous"), "|", threshold_words(math.nan, "no edge"))
    alpha_BBP = 1.25 (continuous) | no alpha_BBP (no edge)
    """
    return f"alpha_BBP = {alpha:.6g} ({kind})" if math.isfinite(alpha) else f"no alpha_BBP ({kind})"


def theory_along(model: Network, alpha: np.ndarray) -> dict[str, np.ndarray]:
    """What theory says along alpha (alpha,) by name: edge, lowest outlier, overlap, teacher_share and student_share, NaN where
    there is none.

    overlap and teacher_share are the squared overlap of the outlier with the signal space, as in `overlaps` of samples;
    student_share is that with the span of the students, as in their `student_shares`.
    """
    if model.inputs is None:  # what is said of them is at each N (bbp.experiments.sweep)
        try:
            found = spectrum(model, alpha)
            student = found.overlap * found.student_share
            return dict(zip(ALONG, (found.edge, found.outlier, found.q2, found.q2, student), strict=True))
        except NotConverged as error:
            log.warning("no theory beside the samples: %s", error)
    return dict.fromkeys(ALONG, np.full(len(alpha), np.nan))


def transition(model: Network) -> tuple[float, str]:
    """alpha_BBP, NaN where there is none, and its kind, one of KINDS; "none" is known of inputs of one's own."""
    if model.inputs is not None:
        return math.nan, "none"
    found = threshold(model)
    return found.alpha, found.kind


def group(model: Network) -> int:
    """How many of the lowest eigenvectors samples are averaged over: the p p_star that carry the teacher, which lie together;
    1 where readouts, biases, a target or rows of one's own set them apart.

    >>> group(Network(2, 3, 0.5)), group(Network(2, 3, 0.5, readout=(1.0, 0.2)))
    (6, 1)
    """
    return int(model.degeneracy) if model.is_mean and model.inputs is None else 1


def centre(model: Network) -> float:
    """An alpha around which to look: alpha_BBP, or p*, where there is none."""
    alpha, _ = transition(model)
    return alpha if math.isfinite(alpha) else float(max(model.p_star, 1))


def with_size(settings: Mapping[str, Any], asked: Mapping[str, Any], model: Any = None) -> dict[str, Any]:
    """Checked settings with N of the inputs of one's own, in them or the model's, where the user asked for none."""
    held = settings["inputs"].entry if settings["inputs"] is not None else getattr(model, "inputs", None)
    return dict(settings) | ({"n": [held.n]} if held is not None and "n" not in asked else {})


def check_inputs(model: Network, sizes: Iterable[int]) -> None:
    """ParameterError where samples at N cannot have the model's inputs; a warning where they differ much from theory's."""
    if model.inputs is not None and set(sizes) != {model.inputs.n}:
        raise ParameterError(f"n must be {model.inputs.n}, the number of columns of {model.inputs.name}")
    if model.covariance is None:
        return
    law = covariance(model.covariance)
    levels, shares = law.law()
    if empty := float(shares[levels == 0].sum()):
        log.warning(
            "covariance %s: a share %.3g of its eigenvalues is 0, and of the Hessian's as many: theory's edge is that of the"
            " others, which lies right of the lowest eigenvalue where it is above 0",
            short(law.spec), empty,
        )  # fmt: skip
    for n in sizes:
        if (apart := law.distance(n)) > _APART:
            log.warning(
                "covariance %s at N = %d: the eigenvalues drawn differ from the law that theory is for by %.2g on average, of a"
                " mean of 1; less at larger N",
                short(law.spec), n, apart,
            )  # fmt: skip


def short(value: Any) -> str:
    """A value in a few words."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) < 40 else text[:36] + "..."
