"""Datasets to HDF5 and back: what is written is read, by this package and by others, and old files open."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import bbp
from bbp.console.errors import FileError
from bbp.files import dataset, product

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "data").glob("*/*.h5"))
SWEEP = ROOT / "data" / "finite_size" / "far.h5"


def _same(one: xr.Dataset, two: xr.Dataset) -> None:
    xr.testing.assert_identical(one.drop_attrs(), two.drop_attrs())
    assert one.attrs == {name: two.attrs[name] for name in one.attrs}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_of_data_opens(path):
    found = bbp.open(path)
    assert found.attrs["format"] == dataset.kind_of(path) and found.sizes


@pytest.mark.parametrize("name", ["finite_size/far", "descent/descent_p1_a0.5_n100_path", "figures/phi"])
def test_what_is_written_is_read(name, tmp_path):
    found = bbp.open(ROOT / "data" / f"{name}.h5")
    dataset.write(tmp_path / "a.h5", found)
    _same(found, bbp.open(tmp_path / "a.h5"))


def test_missing_integers_are_nan_in_memory_and_the_fill_value_in_the_file(tmp_path):
    found = bbp.open(SWEEP)
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
    found = bbp.open(SWEEP).isel(alpha=[0] * len(alphas)).assign_coords(alpha=alphas)
    return found.assign_attrs(p=p, a=a, config=f'{{"p": {p}, "eigenpairs": {5 + p}}}')


def test_several_models_are_a_dimension(tmp_path):
    parts = [_of(1, 0.5, [1.0, 2.0]), _of(2, 0.5, [2.0, 3.0, 4.0])]
    whole = product.combined(parts)
    assert whole.p.values.tolist() == [1, 2] and whole.alpha.values.tolist() == [1, 2, 3, 4]
    assert "p" not in whole.attrs and whole.status.isel(model=0).sel(alpha=4.0).max() == 0
    dataset.write(tmp_path / "a.h5", whole)
    for part, back in zip(parts, product.split(bbp.open(tmp_path / "a.h5")), strict=True):
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
    _same(product.combined(parts), bbp.open(tmp_path / "old.h5"))


def test_a_file_annotated_by_another_program_opens_and_a_flipped_bit_is_found(tmp_path):
    path = tmp_path / "a.h5"
    dataset.write(path, bbp.open(SWEEP))
    data = bytearray(path.read_bytes())
    with h5py.File(path, "r+") as file:
        file.attrs["note"] = "the one for figure 2"
        file["mine"] = np.arange(3)
    assert bbp.open(path).attrs["note"] == "the one for figure 2"
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileError, match="damaged: its contents do not match their checksum"):
        bbp.open(path)


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
