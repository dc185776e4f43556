"""`bbp info` on every kind of file: labels and text apart, lines that fit, nothing left out."""

import re
from pathlib import Path

import pytest

from bbp import info, plot, sweep
from bbp.exports.info import aligned

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "figures/phi.h5",
            ["figure", "claim", "discontinuous_alpha", "(n 3, continuous_alpha 9, sample 150)"],
        ),
        ("descent/descent_p1_a0.5_n100.h5", ["model", "p=1 p*=1 a=0.5", "alpha_BBP", "w_k . w*_l / N"]),
        (
            "finite_size/far.h5",
            ["alpha_BBP", "samples", "600 a point", "variable", "eigenvalues", "theory_edge"],
        ),
    ],
)
def test_every_kind_of_file_is_told_in_columns(name, words, capsys):
    assert info.main([str(DATA / name)]) == 0
    told = capsys.readouterr().out
    for word in words:
        assert word in told
    head = told.split("\n\n")[0].splitlines()
    for line in head:  # a label and text apart, or text folded below text
        assert re.match(r"\S+( \S+)*  +\S| {10,}\S", line), line


def test_long_labels_stay_apart_from_their_text():
    lines = aligned(
        {"format_version": "1", "a_label_longer_than_any_other": "2", "b": "x " * 100}
    ).splitlines()
    starts = [line.index(text) for line, text in zip(lines, ("1", "2", "x"), strict=False)]
    assert len(set(starts)) == 1 and starts[0] > len("a_label_longer_than_any_other")
    assert all(len(line) <= 110 for line in lines)


def test_an_unfinished_run_says_how_to_see_what_there_is(tmp_path, capsys):
    out = tmp_path / "sweep.h5"
    words = ["--alpha-grid", "1,2", "--n", "12", "--samples", "2", "--out", str(out), "--quiet"]
    assert sweep.main([*words, "--task", "1/2"]) == 0
    capsys.readouterr()
    assert plot.main([str(out)]) == 2
    err = capsys.readouterr().err
    assert "--merge --partial writes what there is" in err and err.count("\n") == 1
    assert info.main([str(out) + ".parts"]) == 2
    assert f"is the directory of an unfinished run: bbp info {out}\n" in capsys.readouterr().err
    assert sweep.main([*words, "--merge", "--partial"]) in (0, 1)
    assert plot.main([str(out)]) == 0
