"""Inputs from files of every kind, and every kind of file that holds none, refused in one line."""

import h5py
import numpy as np
import pytest

import bbp
from bbp.console.messages import FileError
from theory import Inputs, ParameterError

X = np.random.default_rng(0).standard_normal((30, 4))


@pytest.fixture
def places(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X, y=X[:, 0])
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="a,b,c,d", comments="")
    np.savetxt(tmp_path / "x.txt", X)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["group/x"] = X
        file.create_dataset("packed", data=X, chunks=True, compression="gzip")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["x.npy", "x.npz", "x.npz:x", "x.csv", "x.txt", "x.h5:/group/x", "x.h5:packed"]
)
def test_the_same_rows_from_every_kind_of_file(places, name):
    found = bbp.inputs(places / name)
    assert found.name == str(places / name)
    np.testing.assert_allclose(found.take(np.arange(30)), Inputs.of(X).take(np.arange(30)))


def test_npy_is_mapped_and_raw_is_not_centred(places):
    assert isinstance(bbp.inputs(places / "x.npy").rows, np.memmap)
    assert isinstance(bbp.inputs(places / "x.h5:/group/x").rows, np.memmap)
    raw = bbp.inputs(f"raw:{places / 'x.npy'}")
    assert not raw.centred and "not centred" in raw.source
    assert bbp.inputs(raw) is raw


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.npy", "no such file"),
        ("x.docx", r"must be a file \.npy"),
        ("x", r"must be a file \.npy"),
        ("", r"must be a file \.npy"),
        ("x.h5", "must name a dataset"),
        ("x.h5:/none", "must name a dataset"),
        ("x.npz:none", "must name a matrix"),
        ("folder.npy", "directory"),
        ("cut.npy", "cannot be read"),
        ("text.npy", "cannot be read"),
        ("empty.csv", "cannot be read|shape"),
        ("words.csv", "cannot be read"),
        ("ragged.csv", "cannot be read"),
        ("objects.npy", "cannot be read"),
        ("text.npz", "cannot be read"),
        ("text.h5", "cannot be read"),
        ("nan.csv", "finite"),
        ("strings.npy", "real numbers"),
        ("cube.npy", "matrix"),
    ],
)
def test_what_is_none_is_refused_in_one_line(places, name, words):
    (places / "folder.npy").mkdir()
    (places / "cut.npy").write_bytes((places / "x.npy").read_bytes()[:200])
    for kind in ("npy", "npz", "h5"):
        (places / f"text.{kind}").write_text("some words\n")
    (places / "empty.csv").write_text("")
    (places / "words.csv").write_text("a,b\nred,blue\ngreen,red\n")
    (places / "ragged.csv").write_text("1,2,3\n4,5\n")
    (places / "nan.csv").write_text("1,2\nnan,5\n3,4\n")
    np.save(places / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    np.save(places / "strings.npy", X.astype(str))
    np.save(places / "cube.npy", X[None])
    with pytest.raises((ParameterError, FileError), match=words) as said:
        bbp.inputs(f"{places / name}" if name else name)
    assert "\n" not in str(said.value)
