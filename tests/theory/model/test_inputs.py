"""Inputs of one's own: scale, centring, identity, and every kind of matrix that is none."""

import numpy as np
import pytest

import theory
from theory import Inputs, Network, ParameterError

X = np.random.default_rng(0).standard_normal((40, 6)) * [1, 2, 3, 4, 5, 6] + 10


def test_rows_have_mean_square_1_and_mean_0_unless_told():
    centred, raw = Inputs.of(X), Inputs.of(X, centred=False)
    whole = centred.take(np.arange(40))
    assert np.mean(whole**2) == pytest.approx(1) and np.abs(whole.mean(axis=0)).max() < 1e-12
    np.testing.assert_allclose(raw.take([5, 0]), X[[5, 0]] / np.sqrt(np.mean(X**2)))


@pytest.mark.parametrize("dtype", ["int16", "uint8", "float32", ">f8", "bool"])
def test_any_real_type(dtype):
    rows = np.arange(24).reshape(8, 3).astype(dtype)
    rows[0] = 0
    found = Inputs.of(rows).take(np.arange(8))
    assert found.dtype == np.float64 and np.mean(found**2) == pytest.approx(1)


def test_equal_where_rows_are():
    assert Inputs.of(X) == Inputs.of(X.copy()) and hash(Inputs.of(X)) == hash(Inputs.of(X.copy()))
    assert Inputs.of(X) != Inputs.of(X, centred=False) and Inputs.of(X) != Inputs.of(X + np.eye(40, 6))


@pytest.mark.parametrize(
    "bad",
    [
        np.where(np.eye(40, 6) > 0, np.nan, X),
        np.where(np.eye(40, 6) > 0, np.inf, X),
        X.astype(str),
        X.astype(complex),
        X.astype(object),
        X[0],
        X[None],
        X[:0],
        X[:, :1],
        X[:1],
        np.ones((5, 5)),
        np.float64(3.0),
        "rows",
        None,
        [[1, 2], [3]],
        X * 1e200,
        np.ma.masked_array(X, X > 11),
    ],
)
def test_what_is_no_matrix_is_refused_in_one_line(bad):
    with pytest.raises(ParameterError) as said:
        Inputs.of(bad)
    assert "\n" not in str(said.value) and str(said.value).startswith("inputs must")


def test_a_map_of_a_file_stays_one_and_some_of_many_rows_stand_for_all(tmp_path):
    rows = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (300_000, 4))
    rows[:] = np.random.default_rng(1).standard_normal(rows.shape)
    found = Inputs.of(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert len(found.typical) == 2**16 and found.typical[-1] < found.count
    np.testing.assert_allclose(found.take([299_999, 3]), (rows[[299_999, 3]] - found.mean) / found.scale)


def test_a_network_with_inputs_has_no_theory_of_gaussian_rows():
    model = Network(inputs=Inputs.of(X))
    assert not model.is_committee and "inputs" in repr(model)
    for asked in (theory.edge, theory.outliers, theory.spectrum, theory.density):
        with pytest.raises(ParameterError, match="inputs"):
            asked(model, 2.0, *([[0.0]] if asked is theory.density else []))
    for asked in (theory.threshold, theory.alpha_zero):
        with pytest.raises(ParameterError, match="inputs"):
            asked(model)
    with pytest.raises(ParameterError, match="covariance"):
        Network(inputs=Inputs.of(X), covariance="mp:0.5")
    with pytest.raises(ParameterError, match="Inputs"):
        Network(inputs=X)
    again = Network.of(model.record(), rows=[model.inputs])
    assert again == model


def test_the_digest_is_that_of_every_row_and_an_array_is_copied():
    x = np.random.default_rng(0).standard_normal((70_000, 3))
    first = Inputs.of(x)
    skipped = int(np.setdiff1d(np.arange(len(x)), first.typical)[0])
    before = first.take([skipped])
    x[skipped] += 1
    assert np.array_equal(first.take([skipped]), before)
    assert Inputs.of(x).source != first.source
