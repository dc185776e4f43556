"""Sweeps and figures of data/ open as they did in the first version, value for value.

values_of_data.json holds digests of every array and attribute that the loaders of the first version gave. A file that has
been made anew since is another file, known by its checksum, and is not compared.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from bbp import store
from bbp.gallery import base

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
    s = store.load(path)
    held = {name: getattr(s, name) for name in SWEEP} | {
        f"provenance {k}": v for k, v in s.provenance.items()
    }
    return (
        held | {"model": repr((s.model.p, s.model.p_star, s.model.a, s.alpha_bbp, s.kind, s.finished))},
        s.config,
        s.attributes,
    )


def of_figure(path):
    data, config = base.load(path)
    held = {}
    for name, (dims, values) in data.arrays.items():
        held |= {name: values, f"dims {name}": list(dims)}
    return held, config, data.attributes


READERS = {"finite_size": of_sweep, "figures": of_figure}


@pytest.mark.parametrize("folder", READERS)
def test_every_value_is_what_it_was(folder):
    compared = 0
    for name in (name for name in KNOWN if name.startswith(folder)):
        held, config, attributes = READERS[folder](ROOT / name)
        found = {key: digest(value) for key, value in held.items()}
        found |= {"config": digest(json.dumps(config, sort_keys=True))}
        found |= {f"attribute {key}": digest(value) for key, value in attributes.items()}
        if found["attribute sha256"] == KNOWN[name]["attribute sha256"]:
            compared += 1
            assert found == KNOWN[name], name
    assert compared or folder == "figures"
