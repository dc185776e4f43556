"""What a sweep is to compute: defaults, then a TOML file, then the command line; checked, complete, comparable."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from bbp.console import grids, program
from bbp.files import toml
from sims import sampling
from sims.instance import STREAM, samples_of
from theory.checks import ParameterError, choice, shown
from theory.model import Committee
from theory.transition import bbp_threshold

AUTO = "auto"
SOLVERS = ("auto", *sampling.SOLVERS)
DTYPES = ("float64", "float32")
MOST_MODELS, MOST_POINTS, MOST_IN_ALL = 1000, 20_000, 2 * 10**7
MOST_SAMPLES = 10**6  # at a point: beyond, the plan alone would not fit
DEFAULTS: dict[str, Any] = {
    "alpha_grid": AUTO,
    "p": 1,
    "p_star": 1,
    "a": 1.0,
    "n": 400,
    "samples": 16,
    "seed": 0,
    "eigenpairs": None,
    "dtype": "float64",
    "solver": "auto",
    "target_error": None,
    "refine": 0,
}
# How to compute, not what: never part of the comparison between a file and a command.
EXECUTION: dict[str, Any] = {
    "out": "results/sweep.h5",
    "block": None,
    "batch": None,
    "workers": None,
    "scheduler": None,
    "locking": None,
    "cache": None,
}


@dataclass(frozen=True)
class Config:
    """A sweep, with everything filled in.

    models       one Committee, or the product over p, p_star, a
    alphas       for each model, alpha in rising order
    n            input dimensions
    samples      samples a point (at most, with target_error)
    seed         of the whole sweep
    eigenpairs   for each model, how many of the lowest eigenpairs
    dtype        "float64" or "float32"
    solver       one of SOLVERS
    target_error standard error at which a point is done, or None
    refine       rounds of points added where the overlap changes most
    """

    models: tuple[Committee, ...]
    alphas: tuple[tuple[float, ...], ...]
    n: tuple[int, ...]
    samples: int
    seed: int
    eigenpairs: tuple[int, ...]
    dtype: str
    solver: str
    target_error: float | None
    refine: int

    def record(self, index: int) -> dict[str, Any]:
        """The configuration of one model as plain data: what its file stores, and what two runs must agree on."""
        model = self.models[index]
        return {
            "p": model.p,
            "p_star": model.p_star,
            "a": model.a,
            "alpha_grid": list(self.alphas[index]),
            "n": list(self.n),
            "samples": self.samples,
            "seed": self.seed,
            "prng": STREAM,
            "eigenpairs": self.eigenpairs[index],
            "dtype": self.dtype,
            "solver": self.solver,
            "target_error": self.target_error,
            "refine": self.refine,
        }

    def records(self) -> list[dict[str, Any]]:
        """The configuration of every model."""
        return [self.record(index) for index in range(len(self.models))]


def build(options: Mapping[str, Any]) -> Config:
    """A `Config` from options by name (text or typed values), defaults filled in; ParameterError on a bad one."""
    given = DEFAULTS | {
        name: value for name, value in options.items() if name in DEFAULTS or name == "a_grid"
    }
    models = _models(given, both="a" in options and "a_grid" in options)
    _check_work(len(models), given)
    config = Config(
        models=models,
        alphas=tuple(_alphas(given["alpha_grid"], model) for model in models),
        n=tuple(sorted(grids.integers("n", given["n"]))),
        samples=_samples(given["samples"]),
        seed=grids.seed(given["seed"]),
        eigenpairs=tuple(_eigenpairs(given["eigenpairs"], model) for model in models),
        dtype=choice("dtype", given["dtype"], DTYPES),
        solver=_choice("solver", given["solver"], SOLVERS),
        target_error=_optional("target_error", given["target_error"]),
        refine=grids.integer("refine", given["refine"], 0),
    )
    _check_sizes(config)
    return config


def read_toml(path: str | Path) -> dict[str, Any]:
    """The options in a TOML file; keys are the long option names, with - or _. FileError, ParameterError."""
    names = [*DEFAULTS, "a_grid", *EXECUTION]
    options = {}
    for key, value in toml.table(path).items():
        name = key.replace("-", "_")
        if name not in names:
            raise ParameterError(f"{str(path)!r}: unknown key {key!r}{program.nearest(name, names)}")
        if name in options:
            raise ParameterError(f"{str(path)!r}: key {key!r} is given twice")
        options[name] = value
    return options


def differences(there: list[dict[str, Any]], here: list[dict[str, Any]]) -> str:
    """In words, how two lists of records differ: "samples 16 there, 32 here; ..."; empty if they agree."""
    if len(there) != len(here):
        return f"{len(there)} model(s) there, {len(here)} here"
    found: dict[str, None] = {}
    for old, new in zip(there, here, strict=True):
        for name in [*new, *(name for name in old if name not in new)]:
            if _canonical(old.get(name)) != _canonical(new.get(name)):
                found[f"{name} {short(old.get(name))} there, {short(new.get(name))} here"] = None
    return "; ".join(list(found)[:4]) + ("; ..." if len(found) > 4 else "")


def _check_work(models: int, given: Mapping[str, Any]) -> None:
    """ParameterError where the list of what is to be done would itself take minutes, or the memory."""
    sizes = len(grids.integers("n", given["n"]))
    auto = given["alpha_grid"] is True or given["alpha_grid"] == AUTO
    alphas = 11 if auto else len(grids.numbers("alpha", given["alpha_grid"]))
    points, samples = models * sizes * alphas, _samples(given["samples"])
    if models > MOST_MODELS:
        raise ParameterError(f"there must be at most {MOST_MODELS} models (p, p_star, a), got {models}")
    if points > MOST_POINTS:
        raise ParameterError(f"there must be at most {MOST_POINTS} points (model, n, alpha), got {points}")
    if points * samples > MOST_IN_ALL:
        raise ParameterError(f"there must be at most {MOST_IN_ALL} samples in all, got {points * samples}")


def _models(given: Mapping[str, Any], *, both: bool) -> tuple[Committee, ...]:
    if both:
        raise ParameterError("a and a_grid are two names of one thing: give one of them")
    students, teachers = grids.widths("p", given["p"]), grids.integers("p_star", given["p_star"])
    if math.inf in students:
        raise ParameterError("p must be finite to sample, got inf (bbp phase knows p = inf)")
    normalisations = (
        grids.numbers("a_grid", given["a_grid"]) if "a_grid" in given else grids.numbers("a", given["a"])
    )
    return tuple(Committee(p, p_star, a) for p, p_star, a in product(students, teachers, normalisations))


def _alphas(value: Any, model: Committee) -> tuple[float, ...]:
    if value is True or value == AUTO:
        return grids.around(bbp_threshold(model).alpha)
    return grids.numbers("alpha", value)


def _eigenpairs(value: Any, model: Committee) -> int:
    least = int(model.degeneracy) + 4
    if value is None:
        return least
    pairs = grids.integer("eigenpairs", value)
    if pairs < least:
        raise ParameterError(
            f"eigenpairs must be at least p p* + 4 = {least} for p={model.p}, p*={model.p_star}, got {pairs}"
        )
    return pairs


def _samples(value: Any) -> int:
    samples = grids.integer("samples", value)
    if samples > MOST_SAMPLES:
        raise ParameterError(f"samples must be at most {MOST_SAMPLES}, got {samples}")
    return samples


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ParameterError(
            f"{name} must be one of {', '.join(choices)}, got {shown(value)}{program.nearest(shown(value), choices)}"
        )
    return value


def _optional(name: str, value: Any) -> float | None:
    return None if value is None else grids.number(name, value)


def _check_sizes(config: Config) -> None:
    """Every point must have a sample (M >= 1), room for the teacher (p* <= N) and enough eigenvalues."""
    for index, model in enumerate(config.models):
        for n in config.n:
            samples_of(config.alphas[index][0], n)
            samples_of(config.alphas[index][-1], n)
            if model.p_star > n:
                raise ParameterError(f"p_star must be at most n, got p_star = {model.p_star}, n = {n}")
            if config.eigenpairs[index] > model.p * n:
                raise ParameterError(
                    f"n = {n} has p n = {model.p * n} eigenpairs, and {config.eigenpairs[index]} are to be kept"
                    " (at least p p* + 4)"
                )


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def short(value: Any) -> str:
    """A value in a few words: lists of numbers by their ends."""
    if isinstance(value, list):
        return (
            ",".join(f"{item:g}" for item in value)
            if len(value) <= 3
            else (f"{value[0]:g}..{value[-1]:g} ({len(value)} points)")
        )
    return str(value)
