"""A table in one test: every row that fails is reported, whatever came before it, and combinations are all tried."""

import pytest

from tests.cases import Failures, cases


def test_every_failure_is_reported_and_no_row_left_out(tmp_path):
    seen = []

    @cases("n, right", [(1, 2), (2, 3), (3, 5)], ids=["one", "two", "three"])
    @cases("sign", [1, -1])
    def add(n, right, sign, folder):
        """Words."""
        seen.append((n, sign))
        with pytest.raises(ZeroDivisionError):
            assert sign * (n + 1) == right and folder == tmp_path
            n / (right - sign * n - 1)

    with pytest.raises(Failures) as caught:
        add(folder=tmp_path)
    assert seen == [(n, sign) for n in (1, 2, 3) for sign in (1, -1)]
    (lines,) = caught.value.args
    assert [line.partition(":")[0] for line in lines] == ["one, -1", "two, -1", "three, 1", "three, -1"]
    assert add.__name__ == "add" and add.__doc__ == "Words."


@cases("n", [1, 2])
def test_fixtures_are_given(tmp_path, n):
    assert tmp_path.is_dir() and n in (1, 2)


def test_a_table_whose_names_the_test_lacks_is_a_mistake():
    with pytest.raises(AssertionError, match="m"):
        cases("m", [1])(lambda n: None)
