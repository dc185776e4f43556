"""One run on one output: locks that are held, shared, left behind, or not ours; with the kernel's locks and without."""

import errno
import json
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import threading
import time

import pytest

from bbp.console.errors import FileError
from bbp.engine import claims, lock
from bbp.engine.lock import Lock, lock_path, remove_task_locks
from bbp.files import atomic


@pytest.fixture
def path(tmp_path):
    return lock_path(tmp_path / "x.h5")


def refuse(number):
    def flock(handle, operation):
        raise OSError(number, "no locks")

    return flock


KINDS = {"flock": None, "ENOLCK": errno.ENOLCK, "524": 524, "EINVAL": errno.EINVAL, "EIO": errno.EIO}


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch):
    """Both kinds of lock: the kernel's, and that of file systems which have none, whatever they say of it."""
    if KINDS[request.param] is not None:
        monkeypatch.setattr(lock.fcntl, "flock", refuse(KINDS[request.param]))
    return request.param


@pytest.fixture
def without_flock(monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)


def left(**changes):
    """The lock of a run on this system that was killed."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    owner = json.loads(claims.signature("file")) | {"pid": dead.pid, "started": "1"} | changes
    return json.dumps(owner)


def test_a_held_lock_is_refused_with_its_owner_and_freed_after(path, kind):
    with Lock(path, "x.h5"):
        with pytest.raises(FileError, match=f"'x.h5' is being written by process {os.getpid()} on "):
            Lock(path, "x.h5").__enter__()
    assert list(path.parent.iterdir()) == []
    with Lock(path, "x.h5"):
        pass


def test_a_lock_left_by_a_killed_process_is_taken_over(path, kind):
    path.write_text(left())
    with Lock(path, "x.h5"):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert list(path.parent.iterdir()) == []


def test_a_lock_file_cut_short_does_not_block(path, kind):
    path.write_text(left()[:20])
    with Lock(path, "x.h5"):
        pass


@pytest.mark.parametrize(
    "content", ["{", "[[package]]\nname = 'poetry'\n", "0", '{"pid": 1, "host": "here"}']
)
def test_a_file_that_is_no_lock_of_ours_is_refused_and_kept(path, kind, content):
    path.write_text(content)
    if content == "{":  # what ours begins with
        with Lock(path, "x.h5"):
            return
    for shared in (False, True):
        with pytest.raises(FileError, match="is not a lock of bbp"):
            Lock(path, "x.h5", shared=shared).__enter__()
    remove_task_locks(path.parent / "x.h5")
    assert path.read_text() == content


@pytest.mark.parametrize("make", ["link", "dangling link", "directory", "fifo"])
def test_what_is_no_regular_file_is_refused_and_its_target_kept(path, kind, make):
    precious = path.with_name("precious")
    precious.write_text(left())
    if make == "directory":
        path.mkdir()
    elif make == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("precious" if make == "link" else "nowhere")
    with pytest.raises(FileError):
        Lock(path, "x.h5").__enter__()
    assert os.path.lexists(path) and json.loads(precious.read_text())["by"] == "file"
    assert not (path.parent / "nowhere").exists()


@pytest.mark.parametrize(
    "elsewhere", [{"host": "elsewhere"}, {"space": "another container"}, {"space": "another boot"}]
)
def test_without_flock_a_lock_that_cannot_be_judged_holds(path, without_flock, elsewhere):
    path.write_text(left(**elsewhere))
    with pytest.raises(FileError, match="; if that run is dead, remove"):
        Lock(path, "x.h5").__enter__()


def test_a_process_number_given_to_another_does_not_hold(path, without_flock):
    path.write_text(left(pid=os.getpid(), started="1"))
    with Lock(path, "x.h5"):
        pass


def test_the_kernels_lock_minds_one_made_of_files(path):
    path.write_text(left(host="elsewhere"))
    with pytest.raises(FileError, match="on elsewhere"):
        Lock(path, "x.h5").__enter__()


def test_shared_holders_exclude_exclusive_ones_only(path, kind):
    with Lock(path, "x.h5", shared=True), Lock(path, "x.h5", shared=True):
        with pytest.raises(FileError, match="is being written by"):
            Lock(path, "x.h5").__enter__()
    with Lock(path, "x.h5"), pytest.raises(FileError):
        Lock(path, "x.h5", shared=True).__enter__()
    with Lock(path, "x.h5"):
        pass


def test_a_refusal_names_no_dead_run_and_no_lock_that_others_hold(path):
    """A run was killed, tasks came after it: its signature is still in the file that they share."""
    path.write_text(left(by="flock"))
    with Lock(path, "x.h5", shared=True), pytest.raises(FileError) as refused:
        Lock(path, "x.h5").__enter__()
    assert str(refused.value) == "'x.h5' is being written by other tasks: wait for them, or stop them"


def test_shared_locks_of_killed_tasks_do_not_hold(path, without_flock):
    path.with_name(f"{path.name}.shared-0123456789ab").write_text(left())
    foreign = path.with_name(f"{path.name}.shared-ba9876543210")
    foreign.write_text("mine")
    with Lock(path, "x.h5"):
        pass
    assert list(path.parent.iterdir()) == [foreign]


def test_locks_of_killed_tasks_are_removed_and_nothing_else(tmp_path):
    out = tmp_path / "x.h5"
    ours = lock_path(out, "3-of-10")
    ours.write_text(left())
    others = [
        tmp_path / name for name in ("x.h5.3-of-10.lock", "x.h5.a-of-b.bbp.lock", "y.h5.1-of-2.bbp.lock")
    ]
    foreign = lock_path(out, "4-of-10")
    for other in (*others, foreign):
        other.write_text("mine")
    remove_task_locks(out)
    assert not ours.exists() and all(other.read_text() == "mine" for other in (*others, foreign))


def hammer(path, rounds, number):
    """Whether two of `number` threads held the lock at once, in so many rounds, each begun with a lock left behind."""
    both, held, guard = [], [], threading.Lock()

    def take(start):
        start.wait()
        try:
            with Lock(path, "x.h5"):
                with guard:
                    held.append(1)
                    both.append(len(held))
                time.sleep(0.002)
                with guard:
                    held.pop()
        except FileError:
            pass

    for _ in range(rounds):
        path.write_text(left_behind)
        start = threading.Barrier(number)
        threads = [threading.Thread(target=take, args=(start,)) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return both


left_behind = left()


@pytest.mark.parametrize("rounds", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_there_is_one_holder(path, kind, rounds):
    both = hammer(path, rounds, 4)
    assert len(both) >= rounds and set(both) == {1}
    assert [item.name for item in path.parent.iterdir() if item != path] == []


def crowd(place, seed, queue):
    """Take and leave the lock many times, shared and exclusive, noting each by a file: who sees a conflict says so."""
    lock.fcntl = None
    rng, wrong, taken = random.Random(seed), 0, 0
    path = lock_path(place / "x.h5")
    for _ in range(60):
        shared = rng.random() < 0.5
        try:
            with Lock(path, "x.h5", shared=shared):
                note = place / f"{'shared' if shared else 'exclusive'}-{seed}"
                note.touch()
                time.sleep(rng.uniform(0, 0.004))
                names = [item.name for item in place.iterdir() if item != note]
                wrong += any(name.startswith("exclusive-") for name in names)
                wrong += not shared and any(name.startswith("shared-") for name in names)
                taken += 1
                note.unlink()
        except FileError:
            pass
    queue.put((wrong, taken))


def test_without_flock_processes_share_and_exclude(tmp_path):
    context = multiprocessing.get_context("forkserver")
    queue = context.Queue()
    processes = [context.Process(target=crowd, args=(tmp_path, seed, queue)) for seed in range(3)]
    for process in processes:
        process.start()
    found = [queue.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    assert sum(wrong for wrong, _ in found) == 0 and all(taken for _, taken in found)
    assert list(tmp_path.iterdir()) == []


def test_one_plan_of_many_made_at_once(tmp_path, monkeypatch):
    """Processes of one number, as in two containers: each writes its own temporary file, and the first one stays."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for round_ in range(40):
        path, made = tmp_path / f"plan-{round_}", []

        def make(text, path=path, made=made):
            try:
                atomic.create(path, text)
                made.append(text)
            except FileExistsError:
                pass

        threads = [threading.Thread(target=make, args=(bytes([65 + i]) * 5000,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [path.read_bytes()]
    assert not list(tmp_path.glob(".*"))


def test_hosts_are_told_apart(path, without_flock, monkeypatch):
    with Lock(path, "x.h5"):
        monkeypatch.setattr(socket, "gethostname", lambda: "another")
        with pytest.raises(FileError, match="if that run is dead"):
            Lock(path, "x.h5").__enter__()
