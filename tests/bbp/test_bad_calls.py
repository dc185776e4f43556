"""Every bad call of a function of bbp ends in one line, a ParameterError that says what was wanted and what was got."""

import functools
import inspect
import math

import numpy as np
import pytest
import xarray as xr

import bbp
from bbp.experiments import program
from bbp.experiments.options import COMPARE, DESCENT, PHASE, SWEEP
from theory.checks import ParameterError
from theory.model.network import Network

SAMPLES = "data/finite_size/c200.h5"
BAD = {
    "None": None, "text": "yes", "empty": "", "bytes": b"x", "float": 0.5, "whole": 3, "negative": -1, "nan": math.nan,
    "inf": math.inf, "huge": 1e300, "huge integer": 10**30, "complex": 1j, "true": True, "list": [1, 2],
    "nested": [[1], [2]], "no list": [], "dict": {}, "set": {1}, "float32": np.float32(0.5), "int64": np.int64(3),
    "array": np.array([1.0, 2.0]), "no array": np.array([]), "bool_": np.bool_(True), "object": object(),
    "type": np.float32, "dtype": np.dtype("float64"), "function": len, "Dataset": xr.Dataset(),
}  # fmt: skip
POINTS = {"alpha": [2.0], "n": 12, "samples": 2}
CALLS = {
    "sweep": (bbp.sweep, SWEEP, POINTS),
    "phase": (bbp.phase, PHASE, {}),
    "descent": (bbp.descent, DESCENT, POINTS),
    "compare": (bbp.compare, COMPARE, {"files": SAMPLES}),
}


class Accepted(Exception):
    """The arguments are good: nothing is computed."""


def outcome(call, **what):
    """What a call makes of its arguments: "accepted", or the one line that refuses them."""
    try:
        call(**what)
    except Accepted:
        return "accepted"
    except ParameterError as error:
        said = str(error)
        assert said and "\n" not in said and len(said) < 300, said
        return said
    return "accepted"


@pytest.mark.parametrize("name", CALLS)
def test_every_option_takes_a_value_or_refuses_it_in_a_line(name, monkeypatch, tmp_path):
    """And none is taken that cannot be meant: what is accepted of each kind stands here."""

    def obtain(experiment, how, again):
        program.planned(experiment, how)
        raise Accepted

    monkeypatch.setattr(program, "obtain", obtain)
    function, options, good = CALLS[name]
    own = [key for key, of in inspect.signature(function).parameters.items() if of.kind is not of.VAR_KEYWORD]
    hidden = ("out", "save", "width", "task", "merge", "dry_run", "cache", "scheduler")
    for key in dict.fromkeys([*own, *(option.name for option in options if option.name not in hidden)]):
        rest = {other: value for other, value in good.items() if (key, other) != ("alpha_grid", "alpha")}
        rest |= {"progress": False}
        if key in ("resume", "force", "retry_failed"):  # which need a file
            rest["out"] = tmp_path / "x.h5"
        found = {label: outcome(function, **rest | {key: value}) for label, value in BAD.items()}
        taken = {label for label, said in found.items() if said == "accepted"}
        assert not taken & {"negative", "nan", "complex", "dict", "set", "object", "bytes"} or (
            key in ("overlap", "readout", "bias") and taken & {"negative"}
        ), (key, taken)
        if key in ("resume", "force", "retry_failed", "progress"):
            assert taken == {"true", "bool_"}, (key, taken)
        if key in ("solver", "dynamics") or (key in ("loss", "activation") and name != "compare"):
            assert not taken, (key, taken)
        if key == "dtype":
            assert taken == {"type", "dtype"}


def nothing(values):
    del values


REFUSED = {
    "open(3)": (lambda: bbp.open(3), "path must be the name of a file, got 3"),
    "open(None)": (lambda: bbp.open(None), "path must be the name of a file, got None"),
    "open([])": (lambda: bbp.open([]), "path must be the name of a file, got []"),
    "join([1])": (lambda: bbp.join([1]), "path must be the name of a file, got 1"),
    "join({})": (lambda: bbp.join({}), "parts must be a list of files or results, got {}"),
    "join(3)": (lambda: bbp.join(3), "parts must be a list of files or results, got 3"),
    "plot(3)": (lambda: bbp.plot(3), "path must be the name of a file, got 3"),
    "plot(ax)": (lambda: bbp.plot(SAMPLES, 3), "ax must be axes of Matplotlib, got 3"),
    "plot(panel)": (lambda: bbp.plot(SAMPLES, panel=3), "panel must be one of a, b, got 3"),
    "sweep('quadratic')": (lambda: bbp.sweep("quadratic"), "model must be one of the theory's"),
    "sweep([])": (lambda: bbp.sweep([]), "model must be one of the theory's"),
    "gram": (lambda: bbp.sweep(Network(2, gram=[[1, 0.3], [0.3, 1]])), "gram must be left out here"),
    "overlaps": (lambda: bbp.sweep(Network(2, overlap=np.full((2, 1), 0.3))), "overlap must be one number here"),
    "output_noise": (lambda: bbp.sweep(Network(2, loss="squared", output_noise=0.1)), "output_noise must be left out"),
    "compare([])": (lambda: bbp.compare([]), "files must be the name of a sweep file, or a list of several, got []"),
    "fit(3)": (lambda: bbp.fit(3), "path must be the name of a file, got 3"),
    "fit(of)": (lambda: bbp.fit(SAMPLES, of=3), "of must be names of what is fitted, got 3"),
    "fit(seed)": (lambda: bbp.fit(SAMPLES, seed=0.5), "seed must be an integer of at least 0, got 0.5"),
    "fit(limit)": (lambda: bbp.fit(SAMPLES, limit=1e300), "limit must be at most 1e+100, got 1e+300"),
    "fit(model)": (lambda: bbp.fit(SAMPLES, model="x"), "model must be an integer of at least 0, got 'x'"),
    "start": (lambda: bbp.descent(p=2, start=np.ones((3, 5))), "start array must have shape (2, 100)"),
    "alphas": (lambda: bbp.sweep(alphas=[1.0]), "did you mean alpha?"),
    "out": (lambda: bbp.sweep(out="x.txt"), "out is an HDF5 file and must not end in .txt"),
    "covariance": (lambda: bbp.sweep(covariance="power:x"), "covariance must be like levels:"),
    "minima": (lambda: bbp.phase(minima="x"), "minima must be a number, got 'x'"),
    "p of minima": (lambda: bbp.phase(p=2, minima=[2.0]), "p must have 1 among its widths"),
    "theory": (lambda: bbp.descent(theory=True, covariance="mp:0.5"), "inputs without covariance"),
    "no option": (lambda: bbp.sweep(sampels=3), "did you mean samples"),
    "p": (lambda: bbp.sweep(Network(1, 1, 1.0), p=2), "p is the model's"),
    "p = inf": (lambda: bbp.sweep(Network(np.inf, 1, 1.0)), "p must be finite to sample"),
    "samples": (lambda: bbp.sweep(samples=0), "samples must be"),
    "a lambda": (lambda: bbp.sweep(observable=lambda values: 0.0), "a function with a name (def NAME): a lambda has none"),
    "a number": (lambda: bbp.sweep(observable=3), "observable must be a function or FILE.py:NAME, got 3"),
    "no value": (lambda: bbp.sweep(observable=nothing), "observable nothing must give real numbers, got None"),
    "partial": (
        lambda: bbp.sweep(observable=functools.partial(nothing)), "written with def or lambda, got functools.partial"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_was_wrong_is_said(name):
    call, words = REFUSED[name]
    assert words in outcome(call)
