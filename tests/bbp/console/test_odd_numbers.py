"""Numbers far outside what can be computed: one line, exit code 2, at once."""

from pathlib import Path

import pytest

ONE = ["--samples", "1", "--alpha-grid", "2", "--n", "20"]
FILE = str(Path(__file__).parents[3] / "data" / "finite_size" / "c200.h5")
ODD = [
    (["sweep", *ONE, "--p", "1e300"], "p must be below 2^31 to draw samples, got 1e+300"),
    (["sweep", *ONE, "--p-star", "1e39"], "p_star must be at most n"),
    (["sweep", *ONE, "--eigenpairs", "1e299"], "are to be kept"),
    (["sweep", "--samples", "1", "--alpha-grid", "2", "--n", "1e299"], "alpha N must be below 2^32 samples"),
    (["sweep", "--samples", "1", "--alpha-grid", "1e100", "--n", "20"], "alpha N must be below 2^32 samples"),
    (["descent", *ONE, "--p", "1e300"], "p must be below 2^31 to draw samples, got 1e+300"),
    (["descent", *ONE, "--steps", "1e300"], "steps must be at most 2147483647"),
    (["descent", *ONE, "--records", "1e300"], "records must be at most 1000000"),
    (["phase", "--p-star", "1e39"], "p_star must be below 2^63 to be written"),
    (["quantile", "--n", "1e299", "--alpha", "3"], "alpha N must be below 2^63 samples"),
    (["quantile", "--n", "40", "--alpha", "1e100"], "alpha N must be below 2^63 samples"),
    (["quantile", "--n", "40", "--alpha", "1e12"], "a draw of labels at alpha = 1e+12, N = 40 takes 8.2e+06 GiB"),
    (["quantile", "--alpha", "1e12", "--share", "0.5"], "a draw of labels at alpha = 1e+12, N = 60 takes 1.23e+07 GiB"),
    (["quantile", "--n", "1e19", "--share", "0.5"], "alpha N must be below 2^63 samples"),
    (["quantile", "--n", "40", "--alpha", "2", "--draws", "1e300"], "draws must be at most 1000000"),
    (["quantile", "--n", "40", "--alpha", "2", "--seed", "1e300"], "seed must be below 2^63"),
    (["sweep", *ONE, "--dry-run", "--batch", "1e299"], "batch must be at most 1000000"),
    (["sweep", *ONE, "--dry-run", "--block", "1e18"], "block must be at most 1000000"),
    (["sweep", *ONE, "--dry-run", "--processes", "1e18"], "processes must be at most 10000"),
    (["sweep", *ONE, "--dry-run", "--workers", "1e18"], "workers must be at most 10000"),
    (["descent", *ONE, "--dry-run", "--threads", "1e18"], "threads must be at most 10000"),
    (["fit", FILE, "--limit", "1e300"], "limit must be at most"),
    (["figures", "spectral", "--n", "1e300"], "n must be at most 1000000"),
    (["figures", "spectral", "--samples", "1e18"], "samples must be at most 1000000"),
    (["phase", "--dry-run", "--draws", "1e18"], "draws must be at most 1000000"),
    (["phase", "--dry-run", "--time", "1e18"], "time must be at most 100"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), ODD)
def test_odd_numbers_end_in_one_short_line(bbp, tmp_path, words, said):
    out = [] if words[0] in ("quantile", "fit", "figures") else ["--out", tmp_path / "x.h5"]
    found = bbp(*words, *out)
    (line,) = found.err.splitlines()
    assert found.code == 2 and said in line and len(line) < 300 and not list(tmp_path.iterdir())


def test_finite_theory_wants_room(bbp, monkeypatch):
    """A control group of 200 MB, and a question that takes 264."""
    asked = ["quantile", "--n", "3000", "--p", "4", "--alpha", "200"]
    monkeypatch.setattr("bbp.quantile.available_bytes", lambda: 200 * 10**6)
    found = bbp(*asked)
    assert found.code == 2 and "takes 0.246 GiB, and 0.186 are free" in found.err
