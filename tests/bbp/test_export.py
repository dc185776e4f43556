"""`bbp export`: every table of every kind of file, digits that match the errors, what is refused."""

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bbp import export
from bbp.analysis import summary
from bbp.analysis.comparison import compare
from bbp.exports.tables import as_csv, as_latex, fitting, heads, quantities, tables
from bbp.files import dataset, product
from theory.model import Committee

DATA = Path(__file__).parents[2] / "data"
STORED = ("figures/phi.h5", "figures/thresholds.h5", "descent/descent_p1_a0.5_n100.h5")
MODEL = Committee(2, 1, 0.3)


def rows(written):
    return list(csv.DictReader(io.StringIO(written)))


def require_heads(found):
    """No two heads of a table alike, no name of a dataset among them."""
    for table in found.values():
        names = heads(quantities(table))
        assert len(set(names)) == len(names) and not any(r"\_" in name for name in names), names


def printed(capsys, *words):
    assert export.main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_a_sweep_s_averages_are_its_summary_to_the_digits_of_their_errors(sweep_file, capsys):
    sweep = dataset.open(sweep_file)
    found, expected = rows(printed(capsys, sweep_file)), summary.summarise(sweep)
    assert len(found) == sweep.n.size * sweep.alpha.size
    for row, (i, j) in zip(found, np.ndindex(sweep.n.size, sweep.alpha.size), strict=True):
        assert int(row["n"]) == sweep.n[i] and float(row["alpha"]) == pytest.approx(
            float(sweep.alpha[j]), rel=1e-11
        )
        value, error = float(expected.lowest[i, j]), float(expected.lowest_error[i, j])
        if math.isnan(value):
            assert row["lowest"] == ""
        elif error > 0:
            assert abs(float(row["lowest"]) - value) <= 0.05 * error  # two digits of the error at least
            assert float(row["lowest_error"]) == pytest.approx(error, rel=0.051)
        assert int(row["samples"]) == expected.samples[i, j]


def test_every_dataset_of_a_sweep_is_in_some_table(sweep_file):
    sweep = dataset.open(sweep_file)
    names = {column for table in tables(sweep).values() for column in table}
    assert {str(name).removeprefix("theory_") for name in sweep.variables} <= names
    held = {name: values.to_numpy() for name, values in tables(sweep)["eigenpairs"].items()}
    np.testing.assert_array_equal(held["eigenvalues"], sweep.eigenvalues.values.ravel())
    np.testing.assert_array_equal(held["n"].reshape(sweep.eigenvalues.shape)[:, 0, 0, 0], sweep.n)


def test_several_models_stand_below_one_another(tmp_path, made_up, capsys):
    path, models = tmp_path / "two.h5", (MODEL, Committee(1, 1, 0.5))
    dataset.write(path, product.combined([made_up(model) for model in models]))
    found = rows(printed(capsys, path))
    assert {(row["p"], row["a"]) for row in found} == {("2", "0.3"), ("1", "0.5")}
    theory = rows(printed(capsys, path, "--table", "theory"))
    assert len(theory) == sum(made_up(model).alpha.size for model in models)


def test_a_phase_diagram_with_infinite_width_and_missing_numbers(phase_file, capsys):
    found = rows(printed(capsys, phase_file))
    assert [row["p"] for row in found] == ["1"] * 5 + ["inf"] * 5
    assert {row["kind"] for row in found if row["p"] == "inf"} == {"discontinuous"}
    assert any(row["alpha_0_continuation"] == "" for row in found)
    assert {"thresholds", "critical", "critical_widths", "widths"} <= set(tables(dataset.open(phase_file)))
    parsed = json.loads(printed(capsys, phase_file, "--json"))
    assert parsed["rows"][-1]["p"] == "inf" and parsed["rows"][-1]["alpha_0_continuation"] is None
    assert "alpha_bbp" in parsed["about"]


@pytest.fixture(scope="module")
def compare_file(tmp_path_factory, made_up_module):
    """Two crossings, the second of few fits; two alpha_0, the second with an error larger than itself."""
    path = tmp_path_factory.mktemp("export") / "compare.h5"
    crossing = {
        "alpha": 1.51,
        "alpha_error": 0.65,
        "alpha_low": 0.6,
        "alpha_high": 1.0,
        "found": [0.95, 0.85],
    }
    crossing |= {"n_small": [20, 40], "n_large": [40, 80]}
    zero = {"value": 1.2, "error": [0.1, 5.0], "low": [1.0, math.nan], "high": [1.4, math.nan]}
    groups = {("crossing", "crossing"): crossing, ("alpha_zero_n", "alpha_zero_sampled"): zero}
    more = {
        f"{prefix}_{name}": (dim, np.broadcast_to(values, 2))
        for (dim, prefix), columns in groups.items()
        for name, values in columns.items()
    }
    found = compare(made_up_module, draws=2, repeats=20).drop_dims(["crossing", "alpha_zero_n"])
    dataset.write(path, found.assign(more).assign_coords(crossing=[0, 1], alpha_zero_n=[20, 40]))
    return path


def test_a_comparison_has_errors_beside_values(compare_file, capsys):
    found = rows(printed(capsys, compare_file))
    assert {"lowest", "lowest_error", "lowest_high", "phi_error", "gap_error"} <= set(found[0])
    assert {"theory_n_lowest", "theory_n_lowest_error", "theory_n_phi_group"} <= set(found[0])


def test_what_samples_do_not_determine_is_no_number(compare_file, capsys):
    """As the printed table: 85 % of fits are too few, and an alpha_0 smaller than its error says nothing."""
    known, not_known = rows(printed(capsys, compare_file, "--table", "crossings"))
    assert (known["crossing_alpha"], known["crossing_verdict"]) == ("1.51", "determined")
    assert not_known["crossing_alpha"] == not_known["crossing_alpha_low"] == ""
    assert not_known["crossing_verdict"] == "not determined: 85% of bootstrap fits cross, 90% are needed"
    latex = printed(capsys, compare_file, "--table", "crossings", "--latex").splitlines()
    assert r"$1.51(65)$" in latex[4] and r"& -- &" in latex[5] and r"not determined: 85\%" in latex[5]
    zeros = json.loads(printed(capsys, compare_file, "--table", "alpha_zero", "--json"))["rows"]
    assert [row["alpha_zero_sampled"] for row in zeros] == [1.2, None]
    assert zeros[1]["alpha_zero_verdict"] == "not determined: its error is larger than itself"


def test_columns_of_latex_have_proper_heads_and_fit_on_a_page(sweep_file, phase_file, compare_file):
    """The two fractions are told apart."""
    for path in (sweep_file, phase_file, compare_file):
        require_heads(tables(dataset.open(path)))
    table = tables(dataset.open(compare_file))["observables"]
    assert heads(["phi", "phi_group"]) == [r"$\phi$", r"$\phi_{pp^*}$"]
    kept, left = fitting(table)
    assert quantities(kept)[:4] == ["n", "alpha", "lowest", "theory_n_lowest"]
    assert "theory_n_overlap_std" in left and len(quantities(kept)) + len(left) == len(quantities(table))
    empty = pd.DataFrame({"a": np.ones(2), "b": np.full(2, math.nan)})
    assert quantities(fitting(empty)[0]) == ["a"]


def test_columns_are_chosen_by_name(compare_file, capsys):
    words = printed(capsys, compare_file, "--columns", "alpha,n,lowest").splitlines()
    assert words[0] == "alpha,n,lowest,lowest_error,lowest_low,lowest_high"
    head = printed(capsys, compare_file, "--columns", "gap,n", "--latex").splitlines()[2]
    assert head == r"$\Delta\lambda$ & $N$ \\"


@pytest.mark.parametrize("name", STORED)
def test_other_files_have_tables_too(name, capsys):
    listed = printed(capsys, DATA / name, "--list").splitlines()
    found = tables(dataset.open(DATA / name))
    assert len(listed) == len(found) > 1
    require_heads(found)
    for line in listed:
        parsed = json.loads(printed(capsys, DATA / name, "--json", "--table", line.split()[0]))
        assert parsed["rows"]


def test_latex_has_a_cell_for_every_column_and_errors_in_the_last_digits():
    columns = {
        "kind": ["smooth_1", "sharp"],
        "overlap": [0.374216, math.nan],
        "overlap_error": [0.0113, math.nan],
    }
    columns |= {"a": [1e-7, math.inf], "gap": [1234.5, 2.0], "gap_error": [120.0, 0.0]}
    lines = as_latex("made", pd.DataFrame(columns)).splitlines()
    assert lines[2] == r"kind & $q^2$ & $a$ & $\Delta\lambda$ \\"
    assert lines[4] == r"smooth\_1 & $0.374(11)$ & $1 \times 10^{-7}$ & $1230(120)$ \\"
    assert lines[5] == r"sharp & -- & $\infty$ & $2$ \\"


def test_files_are_written_whole_and_never_replaced_unasked(sweep_file, tmp_path, capsys):
    out = tmp_path / "deeper" / "table.tex"
    assert printed(capsys, sweep_file, "--out", out) == f"wrote {out}\n"
    assert out.read_text().startswith(r"\begin{tabular}")
    assert export.main([str(sweep_file), "--out", str(out)]) == 2
    assert "exists (--force replaces it)" in capsys.readouterr().err
    assert export.main([str(sweep_file), "--latex", "--out", str(out), "--force"]) == 0
    assert export.main([str(sweep_file), "--csv", "--out", str(tmp_path / "table.txt")]) == 0
    assert (tmp_path / "table.txt").read_text().startswith("n,alpha,samples")


def test_a_share_has_its_interval_and_plain_numbers_one_length():
    """1.000(29) would say that a share can be above 1; 2.76695 and 2.799 stand below one another as 2.76695 and 2.79900."""
    ends = {"": 1.0, "_error": 0.029, "_low": 0.8787, "_high": 1.0}
    table = pd.DataFrame(
        {"alpha": [2.76695, 2.799]} | {f"phi_group{end}": [value, math.nan] for end, value in ends.items()}
    )
    assert as_latex("made", table).splitlines()[4:6] == [
        r"$2.76695$ & $1.00 [0.88, 1.00]$ \\",
        r"$2.79900$ & -- \\",
    ]
    head, first, second = as_csv("made", table).splitlines()
    assert head == "alpha,phi_group,phi_group_error,phi_group_low,phi_group_high"
    assert first == "2.76695,1.000,0.029,0.8787,1" and second == "2.799,,,,"
