"""Datasets to HDF5 and back: what is written is read, by this package and by others, and old files open."""

import io
import random
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import bbp as package
from bbp import phase
from bbp.analysis import comparison
from bbp.console.messages import FileError
from bbp.files import dataset, disk, product

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "data").glob("*/*.h5"))
DATA = ROOT / "data"
KINDS = "sweep", "phase", "descent", "compare", "figure"
SWEEP = ROOT / "data" / "finite_size" / "far.h5"


def _same(one: xr.Dataset, two: xr.Dataset) -> None:
    xr.testing.assert_identical(one.drop_attrs(), two.drop_attrs())
    assert one.attrs == {name: two.attrs[name] for name in one.attrs}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_of_data_opens(path):
    found = package.open(path)
    assert found.attrs["format"] == dataset.kind_of(path) and found.sizes


@pytest.mark.parametrize("name", ["finite_size/far", "descent/descent_p1_a0.5_n100_path", "figures/phi"])
def test_what_is_written_is_read(name, tmp_path):
    found = package.open(ROOT / "data" / f"{name}.h5")
    dataset.write(tmp_path / "a.h5", found)
    _same(found, package.open(tmp_path / "a.h5"))


def test_missing_integers_are_nan_in_memory_and_the_fill_value_in_the_file(tmp_path):
    found = package.open(SWEEP)
    found["max_overlap_rank"][0, 0, 3] = np.nan
    dataset.write(tmp_path / "a.h5", found)
    with h5py.File(tmp_path / "a.h5") as file:
        held = file["max_overlap_rank"]
        assert held.dtype == np.int64 and held[0, 0, 3] == -1 and held.attrs["_FillValue"][0] == -1
        assert file.attrs["p"] == 1 and np.ndim(file.attrs["alpha_bbp"]) == 0
        assert file["theory/edge"].dims[0][0] == file["alpha"] and file["status"].attrs["flag_meanings"]
    with xr.open_dataset(tmp_path / "a.h5", engine="h5netcdf") as read:
        assert np.isnan(read.max_overlap_rank[0, 0, 3]) and read.max_overlap_rank.min() >= 0
        assert {
            values.attrs.get("units") for name, values in read.variables.items() if values.dtype.kind == "f"
        } == {"1"}


def _of(p: int, a: float, alphas: list[float]) -> xr.Dataset:
    """The samples of a file as if they were of another model, at alphas of its own."""
    found = package.open(SWEEP).isel(alpha=[0] * len(alphas)).assign_coords(alpha=alphas)
    return found.assign_attrs(p=p, a=a, config=f'{{"p": {p}, "eigenpairs": {5 + p}}}')


def test_several_models_are_a_dimension(tmp_path):
    parts = [_of(1, 0.5, [1.0, 2.0]), _of(2, 0.5, [2.0, 3.0, 4.0])]
    whole = product.combined(parts)
    assert whole.p.values.tolist() == [1, 2] and whole.alpha.values.tolist() == [1, 2, 3, 4]
    assert "p" not in whole.attrs and whole.status.isel(model=0).sel(alpha=4.0).max() == 0
    # every model's own, those that are the same too
    assert whole.kind.values.tolist() == ["continuous"] * 2 and whole.alpha_bbp.dims == ("model",)
    dataset.write(tmp_path / "a.h5", whole)
    for part, back in zip(parts, product.split(package.open(tmp_path / "a.h5")), strict=True):
        _same(part, back)


def test_files_of_before_with_a_group_for_each_model_open(tmp_path):
    parts = [_of(1, 0.5, [1.0, 2.0]), _of(2, 0.5, [2.0, 3.0, 4.0])]
    groups = {}
    for index, part in enumerate(parts):
        dataset.write(tmp_path / "part.h5", part)
        held = xr.open_groups(tmp_path / "part.h5", engine="h5netcdf")
        groups |= {f"/model_{index:03d}{name.rstrip('/')}": node.load() for name, node in held.items()}
        held["/"].close()
    tree = xr.DataTree.from_dict(
        {"/": xr.Dataset(attrs={"format": "bbp-sweep", "format_version": 1, "models": 2}), **groups}
    )
    tree.to_netcdf(tmp_path / "old.h5", engine="h5netcdf")
    _same(product.combined(parts), package.open(tmp_path / "old.h5"))


def test_a_file_annotated_by_another_program_opens_and_a_flipped_bit_is_found(tmp_path):
    path = tmp_path / "a.h5"
    dataset.write(path, package.open(SWEEP))
    data = bytearray(path.read_bytes())
    with h5py.File(path, "r+") as file:
        file.attrs["note"] = "the one for figure 2"
        file["mine"] = np.arange(3)
    assert package.open(path).attrs["note"] == "the one for figure 2"
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileError, match="damaged: its contents do not match their checksum"):
        package.open(path)


def test_text_of_attributes_is_text_to_h5py(tmp_path):
    """As programs that read files by h5py compare it; and it comes back as it was, whatever the alphabet."""
    found = dataset.open("data/finite_size/c200.h5").assign_attrs(device="", commit="π ≠ 3")
    dataset.write(tmp_path / "x.h5", found)
    again = dataset.open(tmp_path / "x.h5")
    kept = ("device", "commit", "format", "versions", "kind")
    assert {name: again.attrs[name] for name in kept} == {name: found.attrs[name] for name in kept}
    with h5py.File(tmp_path / "x.h5") as file:
        assert file.attrs["kind"] == found.attrs["kind"] and file["alpha"].attrs["long_name"]
        ours = [
            value
            for item in (file, *file.values())
            for name, value in item.attrs.items()
            if name not in ("CLASS", "NAME")  # HDF5's own, of dimension scales
        ]
        assert not any(isinstance(value, bytes) for value in ours)


@pytest.fixture(scope="module")
def originals(tmp_path_factory, made_up_module):
    """The bytes of one small file of each format."""
    place = tmp_path_factory.mktemp("originals")
    dataset.write(place / "sweep.h5", made_up_module)
    words = ["--p", "1,inf", "--a-grid", "0.5,1", "--at-a", "0.5", "--widths", "1,2"]
    assert phase.main([*words, "--quiet", "--out", str(place / "phase.h5")]) == 0
    dataset.write(place / "compare.h5", comparison.compare(made_up_module, draws=0, repeats=100))
    (place / "descent.h5").write_bytes((DATA / "descent" / "descent_p1_a0.5_n100.h5").read_bytes())
    (place / "figure.h5").write_bytes((DATA / "figures" / "alpha-zero.h5").read_bytes())
    return {name: (place / f"{name}.h5").read_bytes() for name in KINDS}


def edited(data, change):
    """The file after `change(file)`, sealed anew: only its layout is wrong."""
    buffer = io.BytesIO(data)
    with h5py.File(buffer, "r+") as file:
        change(file)
    return disk.sealed(buffer.getvalue())


PUT = {
    "nothing": lambda file, name: None,
    "a group": lambda file, name: file.create_group(name),
    "a scalar": lambda file, name: file.create_dataset(name, data=1.0),
    "no value": lambda file, name: file.create_dataset(name, data=h5py.Empty("f8")),
    "another shape": lambda file, name: file.create_dataset(name, data=np.ones((3, 1, 2))),
    "text": lambda file, name: file.create_dataset(name, data=["a", "b"], dtype=h5py.string_dtype()),
    "a cycle": lambda file, name: file.__setitem__(name, file["/"]),
    "a link to nothing": lambda file, name: file.__setitem__(name, h5py.ExternalLink("other.h5", "/x")),
    "a type": lambda file, name: file.__setitem__(name, np.dtype("f8")),
}


@pytest.mark.parametrize("what", PUT)
def test_what_is_in_the_place_of_numbers_is_refused_in_one_line(tmp_path, originals, what):
    def change(file):
        del file["eigenvalues"]
        PUT[what](file, "eigenvalues")

    path = tmp_path / "x.h5"
    path.write_bytes(edited(originals["sweep"], change))
    with pytest.raises(FileError, match=r"^[^\n]*x\.h5[^\n]*$"):
        dataset.open(path)


@pytest.mark.parametrize("share", [60, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_flipped_bit_of_a_sealed_file_never_reaches_hdf5(tmp_path, originals, share, monkeypatch):
    monkeypatch.setattr(dataset.h5py, "File", None)
    path, rng = tmp_path / "x.h5", random.Random(3)
    for kind, data in originals.items():
        data = data if disk.fits(data) else disk.sealed(data)
        for _ in range(share // len(originals)):
            place = rng.randrange(len(data))
            flipped = bytearray(data)
            flipped[place] ^= 1 << rng.randrange(8)
            path.write_bytes(flipped)
            with pytest.raises(FileError):
                dataset.open(path, f"bbp-{kind}")


def test_a_file_that_another_process_writes_is_read_or_refused_and_never_half_of_it(
    tmp_path, originals, same
):
    path = tmp_path / "x.h5"
    path.write_bytes(originals["sweep"])
    reference = dataset.open(path)
    code = "import h5py, sys; file = h5py.File(sys.argv[1], 'r+'); print(flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    holder = subprocess.Popen([sys.executable, "-c", code, path], **pipes)
    holder.stdout.readline()
    try:
        found = dataset.open(path)
    except FileError as error:
        assert "is open for writing in another process" in str(error)
    else:
        same(found, reference)
    with pytest.raises(FileError, match="is open for writing in another process"):
        dataset.open(path, locking=True)
    holder.communicate()


def test_what_files_hold_commands_no_terminal(bbp, tmp_path, monkeypatch, originals):
    def change(file):
        file.attrs["commit"] = "\x1b]0;title\x07\x1b[2J\u202e"

    monkeypatch.chdir(tmp_path)
    Path("x.h5").write_bytes(edited(originals["sweep"], change))
    said = bbp("info", "x.h5")
    assert said.code == 0 and r"\x1b]0;title\x07\x1b[2J\u202e" in said.out
    Path("a\x1b[31m.h5").write_text("x")
    said = bbp("info", "a\x1b[31m.h5")
    assert said.code == 2 and "\x1b" not in said.err
