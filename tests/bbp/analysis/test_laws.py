"""Laws in N on made-up numbers whose law is known: coverage, false alarms, verdicts, and what is too little for one."""

import numpy as np
import pytest

from bbp.analysis.laws import FREE, SHAPES, fit_law, verdict
from theory.checks import ParameterError

N = np.array([100.0, 200, 400, 800, 1600])


def drawn(truth, samples, rng, noise=0.1):
    """Means and errors of so many normal samples, whose scatter grows with N relative to the law."""
    scatter = noise * truth * np.linspace(1, 2, len(truth))
    values = truth + scatter * rng.standard_normal((samples, len(truth)))
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(samples)


@pytest.mark.parametrize(
    ("law", "x", "limit", "samples"),
    [("N^-2/3", 2 / 3, 0.0, 16), (FREE, 0.45, 0.0, 16), (FREE, 0.45, None, 64), ("1/log N", 0.0, None, 16)],
)
def test_intervals_cover_and_a_true_law_is_seldom_rejected(law, x, limit, samples):
    """200 experiments: coverage of every number within 4 sigma (0.062) of 0.95, at most 9 of them rejected (2 expected; false
    alarm 5e-5), and no more than without Johansen's correction."""
    rng = np.random.default_rng(1)
    truth = (limit is None) + 2.0 * SHAPES[law](N, x)
    hits, rejected, plain = {"limit": 0, "coefficient": 0, "exponent": 0}, 0, 0
    for _ in range(200):
        values, errors = drawn(truth, samples, rng, 0.02)
        found = fit_law(law, N, values, errors, limit=limit, freedom=samples - 1)
        rejected += found.rejected
        plain += fit_law(law, N, values, errors, limit=limit).rejected
        for name, true in (("limit", 1.0), ("coefficient", 2.0), ("exponent", x)):
            low, high = (getattr(getattr(found, name), end) for end in ("low", "high"))
            hits[name] += np.nan_to_num(low, nan=-np.inf) <= true <= np.nan_to_num(high, nan=np.inf)
    fitted = ["coefficient", *(["limit"] if limit is None else []), *(["exponent"] if law == FREE else [])]
    assert [name for name in fitted if abs(hits[name] / 200 - 0.95) > 0.062] == []
    assert rejected <= 9 and plain >= rejected


@pytest.mark.parametrize("law", list(SHAPES))
def test_a_law_seen_clearly_is_the_verdict(law):
    """Errors of a thousandth: the law of the numbers, x = 0.4 where it is any power, and no other."""
    rng = np.random.default_rng(2)
    values, errors = drawn(0.5 + 3 * SHAPES[law](N, 0.4), 400, rng, 0.02)
    fits = [fit_law(each, N, values, errors, limit=0.5, freedom=399) for each in SHAPES]
    said = verdict(fits)
    assert (said[0], said[1]) == (law, "every other law is rejected")
    found = fits[list(SHAPES).index(law)]
    assert abs(found.coefficient.sigmas(3)) < 4
    np.testing.assert_allclose(found.at(N), values, atol=5 * errors.max())
    if law == FREE:
        assert abs(found.exponent.sigmas(0.4)) < 4


def test_verdicts_are_seldom_wrong():
    """Of 300 series along N^-2/3, with errors that tell the laws apart in most: a wrong verdict in at most 9 (3 expected)."""
    rng = np.random.default_rng(3)
    said = []
    for _ in range(300):
        values, errors = drawn(2 * N ** (-2 / 3), 64, rng, 0.4)
        said.append(verdict([fit_law(law, N, values, errors, limit=0.0, freedom=63) for law in SHAPES])[0])
    assert said.count("N^-2/3") > 100
    assert len([law for law in said if law not in ("", "N^-2/3")]) <= 9


def test_no_verdict_on_few_sizes_or_on_noise():
    values, errors = 2 * N ** (-2 / 3), 1e-4 * N ** (-2 / 3)
    few = [fit_law(law, N[:3], values[:3], errors[:3], limit=0.0) for law in SHAPES]
    assert verdict(few)[0] == "" and verdict(few)[1] == "3 sizes, 4 are needed"
    free = [fit_law(law, N[:4], values[:4], errors[:4]) for law in SHAPES]
    assert verdict(free)[1] == "4 sizes, 5 are needed"
    noise = [fit_law(law, N, np.array([1.0, -1, 1, -1, 1]), 3 * np.ones(5), limit=0.0) for law in SHAPES]
    assert verdict(noise)[0] == "" and "not rejected" in verdict(noise)[1]
    wrong = [fit_law(law, N, np.array([1.0, -1, 1, -1, 1]), 0.01 * np.ones(5), limit=0.0) for law in SHAPES]
    assert verdict(wrong)[1] == "every law is rejected"


def test_as_many_numbers_as_sizes_have_no_error():
    found = fit_law(FREE, N[:3], 1 + N[:3] ** -0.5, 0.01 * np.ones(3))
    assert found.degrees == 0 and np.isnan(found.probability) and not found.rejected
    assert found.exponent.value == pytest.approx(0.5, abs=1e-3) and np.isnan(found.exponent.error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("N^-3", N, N, N), "law must be one of"),
        (("1/N", [100], [1.0], [0.1]), "at least two different sizes"),
        (("1/N", [100, 100], [1.0, 0.9], [0.1, 0.1]), "at least two different sizes"),
        (("1/N", [100, 200, 200], [1.0, 0.9, 1], [0.1, 0.1, 0.1]), "different sizes above 1"),
        (("1/N", [1, 2], [1.0, 0.9], [0.1, 0.1]), "different sizes above 1"),
        (("1/N", [100, 200], [1.0, 0.5], [0.1, 0.0]), "errors positive"),
        (("1/N", [100, 200], [1.0, np.nan], [0.1, 0.1]), "values must be finite"),
        (("N^-x", [100, 200], [1.0, 0.5], [0.1, 0.1]), "N^-x has 3 numbers to fit, and there are 2 sizes"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ParameterError) as raised:
        fit_law(*arguments)
    assert message in str(raised.value)
