"""Configurations: defaults, TOML files, which wins, and how two of them differ."""

import sys
from dataclasses import replace

from bbp.console.options import Option, checked, number
from bbp.engine.parts import differences
from bbp.experiments.options import SWEEP
from bbp.experiments.sweep import SweepExperiment
from bbp.sweep import PROGRAM
from theory.model import Committee


def test_every_option_has_a_default():
    built = PROGRAM.experiment({})
    assert built.models == (Committee(1, 1, 1.0),) and built.settings["n"] == [400] and built.samples == 16
    assert built.eigenpairs == (5,) and len(built.alphas[0]) == 11 and built.settings["dtype"] == "float64"


def _with_options(monkeypatch, options):
    """The program of sweeps with other options."""
    other = replace(PROGRAM, options=options)
    monkeypatch.setattr(sys.modules["bbp.sweep"], "main", other.main)
    monkeypatch.setattr(sys.modules["bbp.experiments.sweep"], "SWEEP", options)
    monkeypatch.setattr(SweepExperiment, "defaults", checked(options, {}, decides=True))
    return other


def test_files_and_parts_of_before_an_option_was_there_go_on(bbp, tiny, tmp_path, monkeypatch, count_samples):
    """What lacks a new option has its default; another value of it is another run."""
    out, half = tmp_path / "x.h5", tmp_path / "half.h5"
    assert bbp("sweep", *tiny, "--out", out).code == 0
    assert bbp("sweep", *tiny, "--out", half, "--task", "1/2").code == 0
    longer = (*SWEEP, Option("stretch", 1.0, number, "a factor"))
    _with_options(monkeypatch, longer)
    assert "already finished" in bbp("sweep", *tiny, "--out", out).err
    count_samples.clear()
    assert bbp("sweep", *tiny, "--out", half, "--resume").code == 0
    assert len(count_samples) == 24  # the other half
    other = _with_options(monkeypatch, (*SWEEP, Option("stretch", 1.0, lambda *_: 2.0, "a factor")))
    record = other.experiment({}).records[0]
    assert differences([other.experiment({}).records[0]], [record]) == ""
    old = {name: value for name, value in record.items() if name != "stretch"}
    assert differences([old], [record], {"stretch": 1.0}) == "stretch 1.0 there, 2.0 here"


def test_lists_make_a_product_with_a_grid_and_eigenpairs_for_each_model():
    built = PROGRAM.experiment({"p": "1,2", "p_star": "1,3", "a_grid": "0.5:1:2", "n": "20,10"})
    assert len(built.models) == 8 and len(set(built.alphas)) == 8 and built.settings["n"] == [10, 20]
    assert built.eigenpairs == (5, 5, 7, 7, 6, 6, 10, 10)


def test_differences_are_told_in_words():
    there, here = (
        PROGRAM.experiment({"seed": seed, "n": n}).records for seed, n in ((0, "10,20"), (1, "10"))
    )
    assert differences(there, there) == ""
    assert differences(there, here) == "n 10,20 there, 10 here; seed 0 there, 1 here"
    other = PROGRAM.experiment({"alpha_grid": "0.8:2:5", "n": "10,20", "dtype": "float32"}).records
    grids = "alpha_grid 0.8..2 (4 points) there, 0.8..2 (5 points) here; dtype float64 there, float32 here"
    assert differences(PROGRAM.experiment({"alpha_grid": "0.8:2:4", "n": "10,20"}).records, other) == grids
    assert "1 model(s) there, 2 here" == differences(there, PROGRAM.experiment({"p": "1,2"}).records)
