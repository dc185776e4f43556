"""Units on many processes or machines, by dask.distributed (the optional extra `cluster`).

Workers only compute; the process that asked stores what they send. A worker that dies costs the units it held, which
dask gives to others; a unit that takes several workers down with it is recorded as failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dask.distributed import Client, KilledWorker, Nanny, Scheduler, SpecCluster, as_completed

from bbp.console.errors import RunError
from bbp.console.program import log
from bbp.engine.devices import gpus
from bbp.engine.tasks import CACHE, Result, Unit, compute, failure
from theory.checks import ParameterError

CONNECT_SECONDS = 30


@contextmanager
def pool(
    workers: int | None, scheduler: str | None, cache: str | None = None
) -> Iterator[Callable[[Sequence[Unit]], Iterator[Result]]]:
    """A function that runs units on `workers` local processes, or on the cluster of the scheduler at this address.

    cache   directory in which local workers keep compiled programs; RunError if the scheduler cannot be reached
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if scheduler is not None:
        with _connect(scheduler) as client:
            yield lambda units: run(client, units)
        return
    with local(workers or 1, cache) as cluster, Client(cluster) as client:
        yield lambda units: run(client, units)


def run(client: Client, units: Sequence[Unit]) -> Iterator[Result]:
    """Results of `units` in the order in which they finish."""
    futures = {client.submit(compute, unit, pure=False): unit for unit in units}
    try:
        for future in as_completed(futures):
            yield _result(future, futures.pop(future))
            future.release()
    finally:
        client.cancel(list(futures))


def local(workers: int, cache: str | None = None) -> SpecCluster:
    """Processes on this machine, one thread each; with GPUs, one GPU each (ParameterError for more workers)."""
    devices = gpus()
    if devices and workers > len(devices):
        raise ParameterError(
            f"workers must be at most {len(devices)}, one for each GPU, got {workers}"
            " (JAX_PLATFORMS=cpu leaves the GPUs alone)"
        )
    kept = {name.upper(): str(value) for name, value in CACHE.items()} if cache else {}
    kept |= {"JAX_COMPILATION_CACHE_DIR": cache} if cache else {}
    return SpecCluster(
        scheduler={"cls": Scheduler, "options": {"dashboard": False, "port": 0, "host": "127.0.0.1"}},
        workers={
            index: {
                "cls": Nanny,
                "options": {
                    "nthreads": 1,
                    "memory_limit": 0,
                    "dashboard": False,
                    "silence_logs": logging.CRITICAL,
                    "env": kept | ({"CUDA_VISIBLE_DEVICES": devices[index]} if devices else {}),
                },
            }
            for index in range(workers)
        },
        silence_logs=logging.CRITICAL,
    )


def _connect(address: str) -> Client:
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except ValueError as error:
        raise ParameterError(
            f"scheduler must be an address like tcp://host:8786, got {address!r}: {error}"
        ) from None
    except (OSError, TimeoutError) as error:
        raise RunError(f"cannot reach a dask scheduler at {address!r}: {error}") from None
    log.info("scheduler %s has %d workers", address, len(client.scheduler_info()["workers"]))
    return client


def _result(future: object, unit: Unit) -> Result:
    try:
        return future.result()  # type: ignore[attr-defined]
    except KilledWorker as error:
        return failure(unit, f"each of the {error.allowed_failures + 1} workers that tried it died")
    except Exception as error:
        return failure(unit, f"{type(error).__name__}: {' '.join(str(error).split())}")
