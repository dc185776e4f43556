"""Files that others wrote: whatever their types, shapes, links and sizes, one line, soon, and nothing else is read."""

import io
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from bbp import phase, store
from bbp.analysis import comparison
from bbp.console import program
from bbp.console.errors import FileError
from bbp.files import atomic, dataset

DATA = Path(__file__).parents[3] / "data"
KINDS = "sweep", "phase", "descent", "compare", "figure"


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
    return atomic.sealed(buffer.getvalue())


# What takes the place of a dataset.
SECRET = "first line of another file"
PUT = {
    "nothing": lambda file, name: None,
    "a group": lambda file, name: file.create_group(name),
    "a scalar": lambda file, name: file.create_dataset(name, data=1.0),
    "no value": lambda file, name: file.create_dataset(name, data=h5py.Empty("f8")),
    "another shape": lambda file, name: file.create_dataset(name, data=np.ones((3, 1, 2))),
    "text": lambda file, name: file.create_dataset(
        name, data=["\x1b[31mred", "b"], dtype=h5py.string_dtype()
    ),
    "bytes": lambda file, name: file.create_dataset(name, data=np.array([b"\x1b]0;x", b"b"])),
    "not utf-8": lambda file, name: file.create_dataset(name, data=[b"\xff\xfe"], dtype=h5py.string_dtype()),
    "references": lambda file, name: file.create_dataset(name, data=[file.ref], dtype=h5py.ref_dtype),
    "vlen": lambda file, name: file.create_dataset(name, (2,), dtype=h5py.vlen_dtype(np.int32)),
    "compound": lambda file, name: file.create_dataset(name, (2,), dtype=[("a", "f8"), ("b", "i4")]),
    "complex": lambda file, name: file.create_dataset(name, data=np.ones(2, complex)),
    "opaque": lambda file, name: file.create_dataset(name, data=np.zeros(2, "V4")),
    "long double": lambda file, name: file.create_dataset(name, data=np.ones(2, np.longdouble)),
    "infinity": lambda file, name: file.create_dataset(name, data=np.full(2, np.inf)),
    "negative": lambda file, name: file.create_dataset(name, data=np.array([-1, -2])),
    "huge": lambda file, name: file.create_dataset(name, (300_000_000,), dtype="f8", chunks=(1000,)),
    "huge cube": lambda file, name: file.create_dataset(name, (2**20,) * 3, dtype="f8", chunks=(8, 8, 8)),
    "external storage": lambda file, name: file.create_dataset(
        name, (26,), dtype="u1", external=[("secret.txt", 0, 26)]
    ),
    "external link": lambda file, name: file.__setitem__(name, h5py.ExternalLink("other.h5", "/x")),
    "fifo link": lambda file, name: file.__setitem__(name, h5py.ExternalLink("fifo", "/x")),
    "soft link": lambda file, name: file.__setitem__(name, h5py.SoftLink("/config")),
    "second name": lambda file, name: file.__setitem__(name, file[next(iter(file))]),
    "cycle": lambda file, name: file.__setitem__(name, file["/"]),
    "virtual": lambda file, name: file.create_virtual_dataset(name, virtual()),
    "named type": lambda file, name: file.__setitem__(name, np.dtype("f8")),
}
ATTRIBUTES = {
    "missing": None,
    "infinity": np.inf,
    "nan": np.nan,
    "text": "\x1b[31mred\n",
    "empty": h5py.Empty("f8"),
    "array": np.ones((2, 2)),
    "huge number": 2**63,
    "negative": -1,
    "zero": 0,
    "compound": np.zeros(1, dtype=[("a", "f8")]),
    "json of another shape": '[["x"]]',
    "deep json": "[" * 100_000,
}


def virtual():
    layout = h5py.VirtualLayout(shape=(2,), dtype="f8")
    layout[:] = h5py.VirtualSource("other.h5", "x", shape=(2,))
    return layout


def put(what, name):
    def change(file):
        del file[name]
        PUT[what](file, name)

    return change


def attribute(what, name):
    def change(file):
        del file.attrs[name]
        if ATTRIBUTES[what] is not None:
            file.attrs[name] = ATTRIBUTES[what]

    return change


def nested(file):
    group = file
    for _ in range(10_000):
        group = group.create_group("g")


def names(data):
    with h5py.File(io.BytesIO(data)) as file:
        found = []
        file.visit(found.append)
        return found, list(file.attrs)


def cases(originals):
    """Every change of every file."""
    for kind, data in originals.items():
        datasets, attributes = names(data)
        yield from ((kind, put(what, name), f"{what} for {name}") for name in datasets for what in PUT)
        yield from (
            (kind, attribute(what, name), f"{what} for @{name}") for name in attributes for what in ATTRIBUTES
        )


@pytest.fixture
def there(tmp_path, monkeypatch):
    """A directory with what the hostile files point to."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text(SECRET)
    os.mkfifo(tmp_path / "fifo")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.ones(2)
    return tmp_path


def check(bbp, kind, data, about):
    """Read the file by its loader and by the programs: well, or one line; soon; and nothing of other files is shown."""
    Path("x.h5").write_bytes(data)
    start = time.monotonic()
    try:
        dataset.open("x.h5", f"bbp-{kind}")
    except FileError as error:
        assert "\n" not in str(error) and "x.h5" in str(error), about
    for words in (["info", "x.h5"], ["plot", "x.h5", "--out", "x.png", "--force", "--dpi", "20"]):
        said = bbp(*words)
        assert said.code in (0, 2) and "unforeseen" not in said.err, (about, said)
        assert said.err.count("\n") == (said.code == 2), (about, said)
        assert "\x1b" not in said.out + said.err and SECRET not in said.out, (about, said)
    assert time.monotonic() - start < 60, about


@pytest.mark.slow
def test_a_sample_of_all_changes(bbp, there, originals):
    every = list(cases(originals))
    assert len(every) > 2000
    for kind, change, about in random.Random(17).sample(every, 15):
        check(bbp, kind, edited(originals[kind], change), f"{kind}: {about}")


@pytest.mark.slow
def test_all_changes(bbp, there, originals):
    for kind, change, about in cases(originals):
        check(bbp, kind, edited(originals[kind], change), f"{kind}: {about}")


@pytest.mark.parametrize("what", PUT)
def test_each_kind_of_thing_in_the_place_of_numbers_is_refused(there, originals, what):
    path = there / "x.h5"
    path.write_bytes(edited(originals["sweep"], put(what, "eigenvalues")))
    with pytest.raises(FileError, match=r"^[^\n]*x\.h5[^\n]*$"):
        store.load(path)


def test_groups_nested_ten_thousand_deep_are_refused_soon(there, originals):
    path = there / "x.h5"
    path.write_bytes(edited(originals["sweep"], nested))
    start = time.monotonic()
    with pytest.raises(FileError, match="groups deep"):
        store.load(path)
    assert time.monotonic() - start < 30


def test_declared_sizes_are_refused_before_memory_is_taken(there, originals):
    path = there / "x.h5"
    path.write_bytes(edited(originals["sweep"], put("huge", "eigenvalues")))
    code = (
        "import resource, sys; from bbp import store\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: store.load(sys.argv[1])\n"
        "except Exception as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, env=env)
    refused, kilobytes = done.stdout.splitlines()
    assert "declares more values" in refused and int(kilobytes) < 200_000, done


@pytest.mark.parametrize("share", [60, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_flipped_bit_of_a_sealed_file_never_reaches_hdf5(there, originals, share, monkeypatch):
    monkeypatch.setattr(dataset, "_opened", None)
    path, rng = there / "x.h5", random.Random(3)
    for kind, data in originals.items():
        data = data if atomic.fits(data) else atomic.sealed(data)
        for _ in range(share // len(originals)):
            place = rng.randrange(len(data))
            flipped = bytearray(data)
            flipped[place] ^= 1 << rng.randrange(8)
            path.write_bytes(flipped)
            with pytest.raises(FileError):
                dataset.open(path, f"bbp-{kind}")


def test_a_file_that_another_process_writes_is_read_or_refused_and_never_half_of_it(there, originals, same):
    path = there / "x.h5"
    path.write_bytes(originals["sweep"])
    reference = store.load(path)
    code = "import h5py, sys; file = h5py.File(sys.argv[1], 'r+'); print(flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    holder = subprocess.Popen([sys.executable, "-c", code, path], **pipes)
    holder.stdout.readline()
    try:
        found = store.load(path)
    except FileError as error:
        assert "is open for writing in another process" in str(error)
    else:
        same(found, reference)
    with pytest.raises(FileError, match="is open for writing in another process"):
        store.load(path, locking=True)
    holder.communicate()


@pytest.mark.parametrize("make", ["fifo", "directory", "dangling", "loop", "device", "large"])
def test_only_regular_files_of_bounded_size_are_read(tmp_path, make):
    path = tmp_path / "x"
    if make == "fifo":
        os.mkfifo(path)
    elif make == "directory":
        path.mkdir()
    elif make == "large":
        path.write_bytes(bytes(2000))
    else:
        path.symlink_to({"dangling": "nowhere", "loop": path, "device": "/dev/zero"}[make])
    with pytest.raises(FileError, match=r"^[^\n]+$"):
        atomic.read_regular(path, 1000)


def test_what_files_hold_commands_no_terminal(bbp, there, originals):
    def change(file):
        file.attrs["commit"] = "\x1b]0;title\x07\x1b[2J\u202e"

    check(bbp, "sweep", edited(originals["sweep"], change), "escape")
    said = bbp("info", "x.h5")
    assert said.code == 0 and r"\x1b]0;title\x07\x1b[2J\u202e" in said.out
    Path("a\x1b[31m.h5").write_text("x")
    said = bbp("info", "a\x1b[31m.h5")
    assert said.code == 2 and "\x1b" not in said.err
    assert program.COMMANDS
