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
from bbp.analysis import comparison, comparison_file
from bbp.console import program
from bbp.console.errors import FileError
from bbp.experiments import descent_file, phase_file
from bbp.files import hdf5, probe, regular, seal
from bbp.gallery import base

DATA = Path(__file__).parents[3] / "data"
LOADERS = {
    "sweep": store.load_all,
    "phase": phase_file.load,
    "descent": descent_file.load,
    "compare": comparison_file.load,
    "figure": base.load,
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory, made_up_module):
    """The bytes of one small file of each format."""
    place = tmp_path_factory.mktemp("originals")
    store.save(place / "sweep.h5", [made_up_module])
    words = ["--p", "1,inf", "--a-grid", "0.5,1", "--at-a", "0.5", "--widths", "1,2"]
    assert phase.main([*words, "--quiet", "--out", str(place / "phase.h5")]) == 0
    comparison_file.save(
        place / "compare.h5", comparison.compare(made_up_module, draws=0, repeats=100), files=[]
    )
    (place / "descent.h5").write_bytes((DATA / "descent" / "descent_p1_a0.5_n100.h5").read_bytes())
    (place / "figure.h5").write_bytes((DATA / "figures" / "alpha-zero.h5").read_bytes())
    return {name: (place / f"{name}.h5").read_bytes() for name in LOADERS}


def edited(data, change):
    """The file after `change(file)`, sealed anew: only its layout is wrong."""
    buffer = io.BytesIO(data)
    with h5py.File(buffer, "r+") as file:
        change(file)
    return seal.sealed(buffer.getvalue())


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
        LOADERS[kind]("x.h5")
    except FileError as error:
        assert "\n" not in str(error) and "x.h5" in str(error), about
    for words in (["info", "x.h5"], ["plot", "x.h5", "--out", "x.png", "--force", "--dpi", "20"]):
        said = bbp(*words)
        assert said.code in (0, 2) and "unforeseen" not in said.err, (about, said)
        assert said.err.count("\n") == (said.code == 2), (about, said)
        assert "\x1b" not in said.out + said.err and SECRET not in said.out, (about, said)
    assert time.monotonic() - start < 60, about


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


def unsealed(data):
    """As the first version wrote it: no seal, and the format in a heap."""
    buffer = io.BytesIO(data[: -seal.LENGTH] if seal.fits(data) else data)
    with h5py.File(buffer, "r+") as file:
        file.attrs["format"] = hdf5.text_attribute(file, "format")
        file.attrs["sha256"] = hdf5.digest(file)
    return buffer.getvalue()


def test_a_file_without_a_seal_is_read_by_a_child_first(there, originals, same):
    path, old = there / "new.h5", there / "old.h5"
    path.write_bytes(originals["sweep"])
    old.write_bytes(unsealed(originals["sweep"]))
    probe._sound.clear()
    same(store.load(old), store.load(path))
    assert len(probe._sound) == 1 and len(probe._children) == 1
    (child,) = probe._children
    probe._end_all()  # as at this process's end
    assert child.returncode is not None and child.stdin.closed and child.stdout.closed and not probe._children
    with h5py.File(path) as file:
        assert hdf5.text_attribute(file, "format") == "bbp-sweep"
        assert not file.attrs.get_id("format").get_type().is_variable_str()


def test_a_hang_is_ended_and_a_crash_costs_nothing(there, originals, monkeypatch):
    """Stand-ins for what one flipped bit does to HDF5: the child sleeps, or dies."""
    path = there / "old.h5"
    path.write_bytes(unsealed(originals["sweep"]))
    for act, message in (
        ("time.sleep(60)", "reading it does not end"),
        ("os.abort()", "reading it crashes HDF5"),
    ):
        probe._sound.clear()
        for child in list(probe._children):
            probe._end(child)
        monkeypatch.setattr(probe, "SECONDS", 0.5)
        trap = f"import os, time; probe.serve(lambda data: {act})"
        monkeypatch.setattr(probe, "_CODE", probe._CODE.replace("probe.serve(hdf5.examine)", trap))
        with pytest.raises(FileError, match=message):
            store.load(path)
        monkeypatch.undo()
        monkeypatch.chdir(there)
    assert store.load(path).finished in (True, False)


@pytest.mark.parametrize("share", [60, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_flipped_bit_of_a_sealed_file_never_reaches_hdf5(there, originals, share, monkeypatch):
    monkeypatch.setattr(probe, "failure", lambda path, data: "not sealed any more")
    path, rng = there / "x.h5", random.Random(3)
    for kind, data in originals.items():
        data = data if seal.fits(data) else seal.sealed(data)
        for _ in range(share // len(originals)):
            place = rng.randrange(len(data))
            flipped = bytearray(data)
            flipped[place] ^= 1 << rng.randrange(8)
            path.write_bytes(flipped)
            with pytest.raises(FileError):
                LOADERS[kind](path)


@pytest.mark.parametrize("share", [25, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_flipped_bit_of_an_old_file_is_never_another_number(there, originals, share, same, monkeypatch):
    monkeypatch.setattr(probe, "SECONDS", 5.0)
    path, rng = there / "x.h5", random.Random(4)
    data = unsealed(originals["sweep"])
    path.write_bytes(data)
    reference = store.load(path)
    for _ in range(share):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        try:
            found = store.load(path)
        except FileError as error:
            assert "\n" not in str(error)
        else:
            same(found, reference)


def test_a_sound_file_that_another_process_holds_open_is_read(there, originals, same):
    path = there / "x.h5"
    for data in (originals["sweep"], unsealed(originals["sweep"])):
        path.write_bytes(data)
        reference = store.load(path)
        code = "import h5py, sys; file = h5py.File(sys.argv[1], 'r+'); print(flush=True); sys.stdin.read()"
        holder = subprocess.Popen(
            [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
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
        regular.read_regular(path, 1000)


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
