"""Controls, states, links, and the lines to take away: what they print is what the page shows."""

import contextlib
import io
import math
import shlex
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest

import theory
from bbp import phase, sweep
from bbp.explorer.answer import answer, number, with_branch, with_density, with_numbers, without_density
from bbp.explorer.curves import at, axis_end, branch, general_density
from bbp.explorer.figures import SHAPES
from bbp.explorer.files import SIGNS, Held, options_of, read
from bbp.explorer.state import CONTROLS, State, command, python_lines, text_of
from bbp.files import dataset
from bbp.plots.descent import mean_in_time
from theory import Network, ParameterError
from theory.answers import Edge, Found, Outlier
from theory.general import density, lowest_branch, spectrum, threshold

DESCENTS = Path(__file__).parents[3] / "data" / "descent" / "descent_p1_a0.5_n100_path.h5"
STATES = [
    State(),
    State(p=1, a=2.0, alpha=0.9),
    State(p=math.inf, p_star=3, a=0.01, alpha=7.25),
    State(p=512, a=30.0, alpha=0.1),
]
NETWORKS = [
    State(noise=0.3),
    State(p=math.inf, covariance="power:1"),
    State(p=1, a=2.0, alpha=6.0, activation="tanh"),
    State(p=1, a=1.0, overlap=0.5, loss="squared"),
]


def raw(query: str) -> dict[str, list[bytes]]:
    return {name: [value.encode() for value in values] for name, values in parse_qs(query).items()}


@pytest.mark.parametrize("state", STATES + NETWORKS)
def test_a_link_restores_its_state(state):
    found, wrong = State.of_query(raw(state.query()))
    assert found == state
    assert wrong == ""


def test_a_bad_link_keeps_what_is_good_and_says_what_is_not():
    found, wrong = State.of_query(raw("p=2.5&a=0.7&alpha=-1&colour=red&n=1e99"))
    assert found == State(a=0.7)
    for words in (
        "p must be a whole number or inf, got '2.5'",
        "α must lie between",
        "no control is called 'colour'",
    ):
        assert words in wrong


@pytest.mark.parametrize("name", ["p_star", "a", "alpha", "n"])
def test_no_control_takes_nonsense(name):
    for value in ("", "x", "nan", "-1", "1e999", "0x10", "9" * 200, "inf", None, [1], True, {}, "0"):
        with pytest.raises(ParameterError, match=r"^[^\n]+$"):
            State.of({name: value})


@pytest.mark.parametrize("value", ["1e400", "-inf", "infinit", "∞∞", "nan"])
def test_infinity_is_written_out(value):
    with pytest.raises(ParameterError, match="p must be"):
        State.of({"p": value})
    assert State.of({"p": "∞"}) == State.of({"p": "inf"}) == State.of({"p": math.inf})


def test_bounds_are_taken_and_passed_values_refused():
    for control in CONTROLS:
        if control.options:
            assert all(
                getattr(State.of({control.name: option}), control.name) == option
                for option in control.options
            )
            continue
        if control.scale == "numbers":
            assert getattr(State.of({control.name: "-100, 1e2"}), control.name) == "-100,100"
            for value in ("1,-100.1", "1,x", "1;2", ",", 0.5, None, "1," * 60):
                with pytest.raises(ParameterError, match=f"^{control.label} must be"):
                    State.of({control.name: value})
            continue
        for value in (control.low, control.high):
            assert getattr(State.of({control.name: value}), control.name) == value
        for value in (control.low * 0.999 - 1, control.high * 1.001 + 1):
            with pytest.raises(ParameterError):
                State.of({control.name: value})


def test_readouts_and_biases_are_the_model_s():
    state = State.of({"p": 2, "readout": " 1, -0.50", "bias": ""})
    assert State.of_query(raw(state.query())) == (state, "")
    assert (
        (state.readout, state.bias) == ("1,-0.5", "")
        and state.model.readout == (1.0, -0.5)
        and not state.quadratic
    )
    assert options_of(state.model)["readout"] == "1,-0.5" and "readout=(1,-0.5,)" in python_lines(state)
    with pytest.raises(ParameterError, match="readout must be one number for each of 1 students"):
        replace(state, p=1).model  # noqa: B018


def test_the_command_line_runs(tmp_path, capsys, untimed):
    for index, (state, program) in enumerate(
        [
            (State(p=1, n=40, alpha=0.75), sweep),
            (State(p=math.inf), phase),
            (State(p=1, n=40, alpha=0.75, a=1.0, loss="squared", covariance="mp:0.5", overlap=-0.5), sweep),
            (State(p=math.inf, noise=0.3), phase),
            (State(p=2, n=40, alpha=0.75, readout="-1,0.5", bias="-0.5,0"), sweep),
        ]
    ):
        name, *words = shlex.split(command(state))[1:]
        words[words.index("--out") + 1] = str(tmp_path / f"{index}.h5")
        assert name == program.__name__.split(".")[-1]
        if program is sweep:
            words.append("--dry-run")
        assert program.main(words) == 0, capsys.readouterr().err


@pytest.mark.parametrize("state", STATES + NETWORKS)
def test_words_and_python_lines_are_those_of_theory(state):
    found, printed = answer(state), io.StringIO()
    exact, first = spectrum(state.model, state.alpha), threshold(state.model)
    kind, place = exact.kind, exact.edge
    assert found.words["edge"] == (f"{number(place)} {kind}" if math.isfinite(place) else kind)
    assert found.words["alpha_bbp"] == (
        f"{number(first.alpha)} {first.kind}" if math.isfinite(first.alpha) else first.kind
    )
    assert found.words["outlier"] == (", ".join(map(number, exact.outliers[:4])) or "none")
    shares = exact.overlaps * exact.teacher_share
    assert found.words["overlap"] == (number(float(shares[0])) if len(shares) else "0")
    np.testing.assert_array_equal(found.sources["outlier"]["lam"], exact.outliers)
    for left, right, low, high in found.axes.values():
        assert left < right and low < high
    with contextlib.redirect_stdout(printed):
        exec(python_lines(state), {})
    lines = printed.getvalue().splitlines()
    answers = first, theory.edge(state.model, state.alpha), theory.outliers(state.model, state.alpha)
    assert lines[:3] == [str(each) for each in answers]
    assert float(lines[3]) >= 0 if state.model.is_committee else len(lines) == 3


@pytest.mark.parametrize("state", STATES + NETWORKS)
def test_samples_of_a_model_lie_on_the_page_of_that_model_alone(state):
    model = state.model
    held = Held(
        "", {"p": text_of(model.p), "p_star": model.p_star, "a": model.a, "n": 20} | options_of(model)
    )
    assert held.fits(state)
    assert State.of(held.values) == replace(state, n=20, alpha=State().alpha)
    assert not held.fits(replace(state, overlap=0.125))
    assert not held.fits(replace(state, covariance="mp:0.2"))


def test_a_model_that_no_control_makes_is_called_other():
    values = options_of(Network(p=2, p_star=1, a=2.0, activation="tanh", teacher_activation="erf"))
    with pytest.raises(ParameterError, match="activation"):
        State.of(values)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State(p=16, a=2.0, activation="tanh"), "takes too long for a page"),
        (State(p=math.inf, overlap=0.5), "overlap must be 0"),
        (State(a=0.3, loss="squared"), "a must be left at 1"),
    ],
)
def test_options_that_do_not_go_together_are_answered_in_words(state, words):
    with pytest.raises(ParameterError, match=words):
        answer(state)


def test_the_numbers_of_a_slow_model_follow_with_their_errors():
    state = State(p=2, a=2.0, activation="tanh")
    first = answer(state)
    assert {first.words[name] for name in ("edge", "outlier", "overlap", "phase")} == {"computing …"}
    assert first.lines["edge"] is None
    here = Found(
        Edge(-1.0, "sharp", 2e-4, "points"), (Outlier(-1.25, 0.5, 0.5, error=1.5e-3, overlap_error=0.5),)
    )
    found = with_numbers(state, here)
    assert found.words["edge"] == "−1 ± 0.0002 sharp"
    assert found.words["outlier"] == "−1.25 ± 0.002"
    assert found.words["overlap"] == "0.25"
    assert found.lines["edge"] == found.lines["zoom_edge"] == -1.0
    assert found.axes["zoom"][0] < -1.25 < -1 < found.axes["zoom"][1]


def test_the_curves_of_a_model_with_options_are_those_of_the_general_theory():
    state = State(p=1, a=2.0, alpha=6.0, activation="tanh")
    end = axis_end(state.model, state.alpha)
    columns = branch(state.model, np.linspace(end / 12, end, 12))
    exact = lowest_branch(state.model, columns["alpha"])
    np.testing.assert_allclose(columns["edge"], exact.edge, rtol=1e-12)
    overlap = np.nan_to_num(exact.overlap * exact.teacher_share)
    np.testing.assert_allclose(columns["overlap"], overlap, rtol=1e-12)
    here = at(state.model, 6.0)
    found = with_density(state, here, *general_density(state.model, 6.0, here))
    found |= with_branch(columns, end)
    lam, rho = found.sources["density"]["lam"], found.sources["density"]["rho"]
    np.testing.assert_allclose(rho[::10], density(state.model, 6.0, lam[::10], 1e-3), atol=2e-3 * rho.max())
    assert 0.75 < np.trapezoid(rho, lam) < 0.85
    for left, right, low, high in found.axes.values():
        assert left < right
        assert low < high
    assert "No density" not in found.words["spectrum-words"]


def test_a_density_that_is_not_known_is_explained():
    state = State(noise=0.3)
    found = without_density(state, at(state.model, state.alpha), "there are no nodes")
    assert found.words["spectrum-words"].endswith("No density: there are no nodes.")
    assert not found.sources


def test_sizes_have_a_shape_each(made_up, tmp_path):
    """Fourteen: twelve shapes in the order of N, the last for all beyond; the words say which is which."""
    sizes = tuple(range(10, 24))
    dataset.write(tmp_path / "many.h5", made_up(n=sizes, alphas=(1.0, 2.0)))
    (held,) = read(tmp_path / "many.h5")
    assert held.columns["shape"].tolist() == np.repeat([*range(12), 11, 11], 2).tolist()
    assert held.about.startswith("□ N = 10, ○ N = 11") and held.about.count("⬢") == 3
    assert len(SIGNS) == 2 * len(SHAPES)


def test_descents_are_means_over_samples_in_time():
    """As the figure of the file has them, from the first time after 0 on."""
    (held,) = read(DESCENTS)
    found, shown = dataset.open(DESCENTS).sel(n=100, start="random"), held.paths["path"]
    moments = np.searchsorted(found.step.values, found.hessian_step.values)
    for alpha in (1.0, 4.0):
        rows, here = shown["alpha"] == alpha, found.sel(alpha=alpha)
        time = here.time.values[:, moments]
        for name, values in (
            ("lowest", here.eigenvalues.sel(frame="plain").values[..., 0]),
            ("overlap", here.overlaps.sel(frame="plain").values.max(axis=-1)),
            ("m2", here.m2.values[:, moments]),
        ):
            at, mean = mean_in_time(time, values)
            np.testing.assert_allclose(shown["time"][rows], at[1:], rtol=1e-9)
            np.testing.assert_allclose(shown[name][rows], mean[1:], rtol=1e-9)
