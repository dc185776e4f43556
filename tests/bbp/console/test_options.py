"""The grammar of grids and lists."""

import math

import numpy as np
import pytest

from bbp.console import options
from theory.checks import ParameterError


def test_linear_grids_have_both_ends():
    assert options.numbers("alpha", "0.5:2:4") == (0.5, 1.0, 1.5, 2.0)


def test_logarithmic_grids_have_both_ends_and_equal_ratios():
    points = np.array(options.numbers("a", "0.01:3:60:log"))
    assert (len(points), points[0], points[-1]) == (60, 0.01, 3.0)
    np.testing.assert_allclose(points[1:] / points[:-1], 300 ** (1 / 59), rtol=1e-11)


def test_lists_and_single_numbers():
    assert options.numbers("a", "2,0.5") == (0.5, 2.0)
    assert options.numbers("a", 1) == (1.0,) and options.numbers("a", [1, 0.5]) == (0.5, 1.0)
    assert options.integers("p", "4,1,2") == (4, 1, 2)
    assert options.widths("p", "1,inf") == (1, math.inf)


def test_a_grid_and_the_list_of_its_points_are_the_same_numbers():
    assert options.numbers("alpha", "0.1:0.3:3") == options.numbers("alpha", "0.1,0.2,0.3")


def test_the_default_grid_is_centred():
    points = options.around(1.1348541263816159)
    assert points[len(points) // 2] == 1.13485 and len(points) == 11
    np.testing.assert_allclose(np.diff(points), 1.13485 / 10, rtol=1e-4)


def test_anything_else_is_refused_in_one_line(subtests):
    texts = (
        "|x|1:2|1:2:3:4|2:1:3|1:2:1|1:1:3|0:1:3|-1:1:3|1:2:0|1:2:-3|1:2:2.5|1:2:3:lin|nan|inf|1,,2|1,1|1:inf:3|nan:2:3"
        "|1:2:1e12|1:2:x|0|-1|1;2|0x10|1:2:3:|:|1:2:3:log:"
    ).split("|")
    for value in (*texts, True, [], None, [1, "x"], [True], {"start": 1}, [[1]]):
        with subtests.test(value=value), pytest.raises(ParameterError, match=r"^alpha[^\n]*$"):
            options.numbers("alpha", value)


def test_bad_integers_are_refused(subtests):
    for value in ("0", "1.5", "1,1", "x", "", "inf", True, None, -1, [1, 1]):
        with subtests.test(value=value), pytest.raises(ParameterError, match=r"^n [^\n]*$"):
            options.integers("n", value)
