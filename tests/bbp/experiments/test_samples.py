"""The seconds that a dry run expects: the model beside measured samples, and a hint where workers do not pay."""

import pytest

from bbp import sweep
from bbp.experiments.samples import sample_seconds

# (p, N, alpha, solver): seconds measured on one machine (docs/accuracy.md).
MEASURED = {
    (1, 100, 1.0, "dense"): 0.00082,
    (2, 100, 1.0, "dense"): 0.00248,
    (1, 200, 1.0, "dense"): 0.00234,
    (2, 200, 1.0, "dense"): 0.00823,
    (4, 200, 1.0, "dense"): 0.0386,
    (1, 400, 1.0, "dense"): 0.0107,
    (1, 400, 3.0, "dense"): 0.0163,
    (2, 400, 1.0, "dense"): 0.0405,
    (1, 1000, 1.0, "dense"): 0.0906,
    (2, 1000, 1.0, "dense"): 0.501,
    (2, 2000, 1.2, "dense"): 6.66,
    (2, 1000, 1.2, "krylov"): 0.64,
    (2, 1500, 2.5, "krylov"): 3.04,
    (2, 2000, 1.2, "krylov"): 2.17,
    (2, 2000, 2.5, "krylov"): 4.33,
    (1, 2000, 1.0, "krylov"): 0.49,
    (1, 4000, 1.0, "krylov"): 2.25,
    (1, 4000, 2.0, "krylov"): 6.60,
    (2, 4000, 1.0, "krylov"): 5.04,
}


@pytest.mark.parametrize("point", MEASURED)
def test_within_a_factor_of_two_of_what_was_measured(point):
    assert 0.5 < sample_seconds(*point) / MEASURED[point] < 2


def test_large_n_is_expected_to_cost_hours_not_years():
    """A matrix-free sample at N = 1e5 is of order 1e10 products with data; its cube would be 1e15."""
    assert 3600 < sample_seconds(1, 10**5, 1.0, "krylov") * 10 < 10 * 3600


def test_a_dry_run_says_where_workers_do_not_pay(tmp_path, capsys):
    words = ["--alpha-grid", "1", "--n", "20", "--samples", "2", "--out", str(tmp_path / "x.h5"), "--dry-run"]
    assert sweep.main([*words, "--workers", "2"]) == 0
    assert "they cost more here than they gain" in capsys.readouterr().out
    assert sweep.main(words) == 0
    assert "gain" not in capsys.readouterr().out
