"""The sweep file: what is written is read back, and xarray opens it with no helper."""

import h5py
import numpy as np
import pytest
import xarray

from bbp import store
from bbp.console.errors import FileError
from bbp.files import hdf5
from theory.model import Committee


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sweep.h5"


def test_what_is_saved_is_loaded(path, made_up, same):
    sweep = made_up()
    store.save(path, [sweep])
    back = store.load(path)
    same(sweep, back)
    assert back.config == sweep.config
    assert back.provenance["host"].tolist() == ["one", "two"]
    assert not back.finished and back.attributes["seed"] == 0


def test_the_contract_in_h5py(path, made_up):
    store.save(path, [made_up()])
    with h5py.File(path) as file:
        for name in ("eigenvalues", "overlaps", "residuals"):
            assert file[name].dtype == np.float64
            assert [file[name].dims[i].keys()[0] for i in range(4)] == ["n", "alpha", "sample", "eigenpair"]
        for name in ("max_overlap_rank", "status"):
            assert [file[name].dims[i].keys()[0] for i in range(3)] == ["n", "alpha", "sample"]
        assert (
            file["theory/edge"].shape == file["theory/outlier"].shape == file["theory/overlap"].shape == (3,)
        )
        for name in ("p", "p_star", "a", "alpha_bbp", "kind", "seed", "dtype", "device", "finished"):
            assert name in file.attrs, name


def test_xarray_opens_it_with_no_helper(path, made_up):
    sweep = made_up()
    store.save(path, [sweep])
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        assert data.eigenvalues.dims == ("n", "alpha", "sample", "eigenpair")
        assert data.status.dims == ("n", "alpha", "sample")
        np.testing.assert_array_equal(data.overlaps.sel(n=40, alpha=2.0).values, sweep.overlaps[1, 2])
        assert data.attrs["kind"] == "continuous" and data.reason.values[0, 0, 1].endswith("é")
    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        assert tree["theory"].outlier.sel(alpha=2.0) == sweep.outlier[2]
        assert tree["provenance"].unit_seconds.dims == ("unit",)


def test_a_product_has_a_group_a_model(path, made_up, same):
    models = [Committee(1, 1, 0.5), Committee(2, 1, 0.5)]
    sweeps = [made_up(model, seed=index) for index, model in enumerate(models)]
    store.save(path, sweeps)
    for index, sweep in enumerate(sweeps):
        same(sweep, store.load(path, index))
        with xarray.open_dataset(path, engine="h5netcdf", group=store.group_name(index)) as data:
            assert (
                data.eigenvalues.dims == ("n", "alpha", "sample", "eigenpair")
                and data.attrs["p"] == index + 1
            )
    with xarray.open_dataset(path, engine="h5netcdf") as table:
        assert table.p.values.tolist() == [1, 2] and table.kind.dims == ("model",)
    for index, says in ((None, "--model INDEX"), (2, "index 2"), (-1, "index -1")):
        with pytest.raises(FileError, match=f"holds 2 models .*{says}"):
            store.load(path, index)


def test_a_changed_number_does_not_pass(path, made_up):
    store.save(path, [made_up()])
    with h5py.File(path, "r+") as file:
        file["eigenvalues"][0, 0, 0, 0] += 1e-9
    with pytest.raises(FileError, match="damaged"):
        store.load(path)


def test_formats_are_told_apart(path):
    hdf5.write(path, lambda file: None, format="bbp-phase", version=1)
    assert hdf5.format_of(path) == "bbp-phase"
    with pytest.raises(FileError, match="bbp-phase file, not a bbp-sweep file"):
        store.load(path)
    for version, word in ((store.VERSION + 1, "newer"), (store.VERSION - 1, "older")):
        hdf5.write(path, lambda file: None, format=store.FORMAT, version=version)
        with pytest.raises(FileError, match=word):
            store.load(path)


def test_the_locking_switch(path, made_up):
    store.save(path, [made_up()])
    for locking in (None, True, False, "best-effort"):
        assert store.load(path, locking=locking).alpha.size == 3
