"""One run on one output: locks that are held, shared, left behind."""

import errno
import json
import os
import socket
import subprocess
import sys

import pytest

from bbp.console.errors import FileError
from bbp.engine import lock
from bbp.engine.lock import Lock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.h5.lock"


@pytest.fixture(params=["flock", "exclusive file"])
def without_flock(request, monkeypatch):
    """Both kinds of lock: the kernel's, and that of file systems which have none."""
    if request.param == "exclusive file":

        def refuse(handle, operation):
            raise OSError(errno.ENOLCK, "no locks")

        monkeypatch.setattr(lock.fcntl, "flock", refuse)


def test_a_held_lock_is_refused_with_its_owner_and_freed_after(path, without_flock):
    with Lock(path, "x.h5"):
        with pytest.raises(FileError, match=f"'x.h5' is being written by process {os.getpid()} on "):
            Lock(path, "x.h5").__enter__()
    assert not path.exists()
    with Lock(path, "x.h5"):
        pass


def test_a_lock_left_by_a_killed_process_is_taken_over(path, without_flock):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    path.write_text(json.dumps({"pid": dead.pid, "host": socket.gethostname()}))
    with Lock(path, "x.h5"):
        assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_damaged_lock_file_does_not_block(path, without_flock):
    path.write_text("{")
    with Lock(path, "x.h5"):
        pass


def test_without_flock_a_lock_of_another_host_holds(path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    path.write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "yesterday"}))
    with pytest.raises(
        FileError, match="process 1 on elsewhere since yesterday; if that run is dead, remove"
    ):
        Lock(path, "x.h5").__enter__()


def test_shared_holders_exclude_exclusive_ones_only(path):
    with Lock(path, "x.h5", shared=True), Lock(path, "x.h5", shared=True):
        with pytest.raises(FileError, match="other tasks"):
            Lock(path, "x.h5").__enter__()
    with Lock(path, "x.h5"), pytest.raises(FileError):
        Lock(path, "x.h5", shared=True).__enter__()
