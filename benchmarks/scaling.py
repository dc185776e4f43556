"""Strong and weak scaling of a product over devices and of samples over processes, and the model that carries it further.

    python -m benchmarks.scaling [--n 2000] [--devices 1,2,4,8] [--processes 1,2]

Rows over devices: H V for k = 8 vectors in float32 on an operator over a mesh, XLA's CPU split into D devices
(XLA_FLAGS=--xla_force_host_platform_device_count=D, a process each). Strong: the same rows on D devices; weak: as many rows
more as there are devices. All devices of one machine share its cores, so nothing can become faster here: perfect is a time that
stays (strong) or grows with the rows (weak), and what is printed, the time that perfect sharing would take over the time
taken, is what splitting costs. Tasks over processes: samples a second of `bbp.engine.executors`, to processes x one.

The model of one product on D devices, each with its share m = M / D of the rows, p student rows, k vectors:

    product   of m rows on one card, by its data sheet and its compiled programs (`sims.machine.product_seconds`)
    reduce    the one all-reduce of the compiled programs (`python -m benchmarks.gpu_compile --part cards`), 4 N p k bytes: as a
              ring 2 (D - 1) / D times these over the link, and a latency for each of its 2 (D - 1) steps

Nothing of it is measured; the link and its latency are assumed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import jax
import numpy as np

from bbp.console import messages
from bbp.engine import executors
from bbp.sweep import PROGRAM
from sims import machine
from sims.instance import draw
from sims.machine import ROOM
from sims.operator import hessian_operator
from sims.rows import row_mesh
from theory.model import Network

P, K, ALPHA = 2, 8, 2.0


LINK, LATENCY = 50e9, 10e-6  # bytes a second between cards, seconds of a message: assumed


def seconds(n: int, m: int, p: int, k: int, devices: int, *, stored: bool) -> tuple[float, float]:
    """Seconds of one product on one card, m rows in all, without and with those of the reduction over all."""
    own = machine.product_seconds(-(-m // devices), n, p * k, 4, stored=stored)
    ring = 2 * (devices - 1)
    return own, own + ring / devices * 4 * n * p * k / LINK + ring * LATENCY


def one(n: int, alpha: float, stored: bool, repeat: int = 5) -> float:
    """Seconds of one product on all devices of this process, the least of the repetitions."""
    model = Network(P, 1, 0.3)
    drawn = draw(model, n, alpha, dtype="float32", data=False)
    operator = hessian_operator(drawn, stored=stored, mesh=row_mesh())
    vectors = jax.numpy.asarray(np.random.default_rng(0).normal(size=(P * n, K)), "float32")
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        jax.block_until_ready(operator.product([0], [vectors]))
        times.append(time.perf_counter() - start)
    return min(times[1:])


def on_devices(devices: int, n: int, alpha: float, stored: bool) -> float:
    """The same in a process that sees so many devices."""
    flag = f"--xla_force_host_platform_device_count={devices}"
    environment = os.environ | {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flag}",
        "JAX_PLATFORMS": "cpu",
    }
    words = [sys.executable, "-m", "benchmarks.scaling", "--child", json.dumps([n, alpha, stored])]
    return float(subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout)


def rows_over_devices(n: int, devices: list[int]) -> None:
    """Print the table of devices."""
    for stored in (True, False):
        alone = on_devices(1, n, ALPHA, stored)
        print(f"rows {'stored' if stored else 'drawn at every pass'}, N = {n}, p = {P}, k = {K}, float32")
        print(
            f"{'devices':>8} {'strong, ms':>11} {'kept':>6} {'weak, ms':>9} {'kept':>6} {'reduced, KiB':>13}"
        )
        for number in devices:
            strong = alone if number == 1 else on_devices(number, n, ALPHA, stored)
            weak = alone if number == 1 else on_devices(number, n, ALPHA * number, stored)
            print(
                f"{number:8d} {1e3 * strong:11.1f} {alone / strong:6.2f} {1e3 * weak:9.1f}"
                f" {number * alone / weak:6.2f} {4 * n * P * K * (number - 1) / 1024:13.0f}",
                flush=True,
            )


def tasks_over_processes(n: int, processes: list[int], samples: int = 48) -> None:
    """Print the table of processes: strong, the same samples; weak, as many for each process."""
    experiment = PROGRAM.experiment({"n": str(n), "p": "1", "alpha_grid": "1", "samples": 10**6})
    point = next(iter(experiment.points(None)))  # type: ignore[arg-type]
    place, alone = messages.cache_directory(None), 0.0
    print(f"samples of N = {n}, p = 1 a second over processes")
    print(f"{'processes':>10} {'strong':>8} {'kept':>6} {'weak':>8} {'kept':>6}")
    for number in processes:
        with executors.Processes(number, messages.keeping_environment(place)) as pool:
            list(executors.results(pool, [experiment.unit(point, i, 8) for i in range(2 * number)]))
            rates = []
            for total in (samples, samples * number):
                units = [experiment.unit(point, start, 8) for start in range(0, total, 8)]
                start = time.perf_counter()
                list(executors.results(pool, units))
                rates.append(total / (time.perf_counter() - start))
        alone = alone or rates[0]
        kept = [rate / (alone * number) for rate in rates]
        print(f"{number:10d} {rates[0]:8.1f} {kept[0]:6.2f} {rates[1]:8.1f} {kept[1]:6.2f}", flush=True)


def prediction(n: int = 1_000_000, alpha: float = 2.0, p: int = 1, k: int = 8, products: int = 500) -> None:
    """Print what the model says of N = 1e6 on cards of 80 GB."""
    m = round(alpha * n)
    print(f"computed, N = {n}, alpha = {alpha:g}, p = {p}, k = {k}, {products} products: {machine.CARD}")
    titles = f"{'GPUs':>6} {'GB of rows each':>16} {'product, drawn':>15} {'of it reduce':>13} {'stored':>8}"
    print(titles + f" {'hours':>6} {'kept':>6}")
    alone = seconds(n, m, p, k, 1, stored=False)[1]
    for devices in (1, 8, 16, 64, 256):
        own, drawn = seconds(n, m, p, k, devices, stored=False)
        held = 4 * m * n / devices
        stored = f"{seconds(n, m, p, k, devices, stored=True)[1]:7.3f}s"
        stored = stored if held < ROOM * machine.CARD.memory else "no room"
        print(
            f"{devices:6d} {held / 1e9:16.0f} {drawn:14.3f}s {1e3 * (drawn - own):11.2f}ms {stored:>8}"
            f" {products * drawn / 3600:6.2f} {alone / devices / drawn:6.3f}"
        )


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--devices", type=lambda s: [int(d) for d in s.split(",")], default=[1, 2, 4, 8])
    parser.add_argument("--processes", type=lambda s: [int(d) for d in s.split(",")], default=[1, 2])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(one(*json.loads(options.child)))
        return
    rows_over_devices(options.n, options.devices)
    tasks_over_processes(400, options.processes)
    prediction()


if __name__ == "__main__":
    main()
