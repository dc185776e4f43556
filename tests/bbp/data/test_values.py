"""Sweeps and figures of data/ open as they did in the first version, value for value.

values_of_data.json holds digests of every array and attribute that the loaders of the first version gave. A file that has
been made anew since is another file, known by its checksum, and is not compared.
"""

import glob
import hashlib
import json
from pathlib import Path

import h5py
import numpy as np
import pytest

import bbp as package
from bbp.analysis.comparison import compare
from bbp.analysis.summary import summarise
from bbp.files import dataset

ROOT = Path(__file__).parents[3] / "data"
KNOWN = json.loads(Path(__file__).with_name("values_of_data.json").read_text())
SWEEP = "n alpha sample eigenpair eigenvalues overlaps residuals max_overlap_rank status reason edge outlier overlap".split()


def digest(value):
    array = np.asarray(value)
    text = array.dtype.kind in "OU"
    content = json.dumps([str(item) for item in array.ravel()]).encode() if text else array.tobytes()
    kind = "O" if text else array.dtype.str
    return hashlib.sha256(f"{array.shape}{kind}".encode() + content).hexdigest()[:16]


def of_sweep(path):
    s = dataset.open(path)
    held = {
        name: s[f"theory_{name}" if name in ("edge", "outlier", "overlap") else name].values for name in SWEEP
    }
    held["max_overlap_rank"] = np.nan_to_num(held["max_overlap_rank"], nan=-1).astype(np.int64)
    held |= {
        f"provenance {n.removeprefix('unit_')}": s[n].values
        for n in map(str, s.data_vars)
        if n.startswith("unit_")
    }
    model = repr(
        (s.attrs["p"], s.attrs["p_star"], s.attrs["a"], s.alpha_bbp, s.kind, bool(s.attrs["finished"]))
    )
    return held | {"model": model}, s


def of_figure(path):
    found = dataset.open(path)
    held = {}
    for name, values in found.variables.items():
        held |= {name: values.values, f"dims {name}": list(values.dims)}
    return held, found


READERS = {"finite_size": of_sweep, "figures": of_figure}


@pytest.mark.parametrize("folder", READERS)
def test_every_value_is_what_it_was(folder):
    compared = 0
    for name in (name for name in KNOWN if name.startswith(folder)):
        held, result = READERS[folder](ROOT / name)
        with h5py.File(ROOT / name) as file:
            checksum = np.asarray(file.attrs.get("sha256", "")).item()  # of files of before
        attributes = {key: value for key, value in result.attrs.items() if key != "config"}
        attributes["sha256"] = checksum.decode() if isinstance(checksum, bytes) else checksum
        found = {key: digest(value) for key, value in held.items()}
        found |= {"config": digest(json.dumps(dataset.config(result), sort_keys=True))}
        found |= {f"attribute {key}": digest(value) for key, value in attributes.items()}
        if found["attribute sha256"] == KNOWN[name]["attribute sha256"]:
            compared += 1
            assert found == KNOWN[name], name
    assert compared or folder == "figures"


def test_every_variable_has_words_and_units():
    """Of sweeps, joined ones, averages, comparisons and fits; of descents and phase diagrams, from the stored ones."""
    far = "data/finite_size/far.h5"
    stored = [package.open(path) for path in (far, *sorted(glob.glob("data/descent/*.h5"))[:1])]
    sweep = stored[0].assign_attrs(seed=1)
    made = [
        package.join([far, sweep]),
        summarise(stored[0]),
        compare(stored[0], draws=0, repeats=100),
        package.fit(far),
    ]
    for found in [*stored, *made]:
        for name, values in found.variables.items():
            assert values.attrs.get("long_name"), (found.attrs.get("format"), name)
            assert values.dtype.kind not in "fiu" or {"units", "flag_values"} & set(values.attrs), name
