"""Cores: what is allotted, and that threads are as many, not as many as the machine has."""

from sims import cores
from sims.descent import samples
from sims.krylov import solver


def test_cores_are_the_least_of_what_is_allotted(monkeypatch, tmp_path):
    monkeypatch.setattr(cores, "_affinity", lambda: 16)
    monkeypatch.setattr(cores, "group_directories", lambda: [(2, tmp_path), (2, tmp_path / "none")])
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    assert cores.allotted() == 16
    for text, expected in (("max 100000", 16), ("250000 100000", 3), ("50000 100000", 1)):
        (tmp_path / "cpu.max").write_text(f"{text}\n")
        assert cores.allotted() == expected
    (tmp_path / "cpu.max").unlink()
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    assert cores.allotted() == 4
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "many")
    assert cores.allotted() == 16


def test_threads_are_as_many_as_cores_are_allotted(monkeypatch):
    monkeypatch.setattr(samples, "allotted", lambda: 3)
    assert samples._workers(None, 100) == 3

    class Seen(Exception):
        pass

    def pool(threads):
        raise Seen(threads)

    monkeypatch.setattr(solver, "allotted", lambda: 3)
    monkeypatch.setattr(solver, "ThreadPoolExecutor", pool)
    for searches, threads in ((2, 2), (5, 3)):
        try:
            solver.drive(None, None, [iter([None]) for _ in range(searches)])
        except Seen as seen:
            assert seen.args == (threads,)
        else:
            raise AssertionError("no threads were asked for")
