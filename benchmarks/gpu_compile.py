"""Compile the programs of `sims` for an H200, or a card of 80 GB, on a machine without a GPU: what they would move and hold.

pip install jax-cuda12-plugin jax-cuda12-pjrt nvidia-cuda-nvcc-cu12     of JAX's version; no driver
python -m benchmarks.gpu_compile [--card h200|h100] [--only WORDS] [--quick]

Nothing here is measured. Printed for each program: what XLA plans (arguments, results, temporaries), kernels and library
calls, copies and paddings of large arrays that stand alone, and the bytes that the kernels read and write, counted from the
shapes of their operands. From these follows a roofline, at the published bandwidth and rates of the card. Without a card XLA
cannot choose among kernels by timing them, so that a choice may differ on one.
"""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.programs import HALVES, programs
from sims.operator import sharded
from sims.operator.halves import gemm_width
from sims.operator.rows import block_size
from sims.pinned import settings

# Published: bytes, bytes a second, operations a second of float32 and float64 outside and inside tensor cores
CARDS = {"h200": (141e9, 4.8e12, 67e12, 67e12), "h100": (80e9, 3.35e12, 67e12, 67e12)}
DENSE = (
    "hessian._dense",
    "hessian._assembled",
    "instance._place",
)  # of runs that form the matrix, at small N
_TARGET = """gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535 memory_bandwidth: {bandwidth} l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: {memory} shared_memory_per_block_optin: 232448 cuda_compute_capability {{ major: 9 }}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}}
runtime_version {{ major: 12 minor: 9 patch: 0 }} platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 7 }}
device_description_str: "NVIDIA {name}"
"""
_WIDTH = {
    "f64": 8,
    "s64": 8,
    "u64": 8,
    "f32": 4,
    "s32": 4,
    "u32": 4,
    "bf16": 2,
    "f16": 2,
    "pred": 1,
    "s8": 1,
    "u8": 1,
}
_FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "iota", "after-all"}
_LARGE = 0.05  # of the largest array: copies and paddings above it are told
_LINE = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*?)\)(?:,|$)")


class Compiled(NamedTuple):
    """What XLA made of a program: bytes planned and bytes its kernels move, kernels by kind, library calls, large copies."""

    arguments: int
    results: int
    temporaries: int
    moved: int
    kernels: Counter[str]
    calls: list[str]
    copies: list[str]


def devices(card: str, number: int = 1) -> Any:
    """Devices of that card that exist for the compiler only."""
    memory, bandwidth, *_ = CARDS[card]
    target = _TARGET.format(bandwidth=int(bandwidth), memory=int(memory), name=card.upper())
    return topologies.get_topology_desc(
        "name", "cuda", target_config=target, topology=f"{number}x1x1"
    ).devices


def compiled(lowered: Any) -> Compiled:
    """Compile and read the result."""
    made = lowered.compile()
    plan, text = made.memory_analysis(), made.as_text()
    sizes, kernels, calls, copies, moved = {}, Counter(), [], [], 0
    entry = text[text.index("\nENTRY") :].splitlines()[1:]
    found = [match for line in entry if (match := _LINE.match(line))]
    for match in found:
        sizes[match[1]] = sum(
            _WIDTH.get(kind, 4) * int(np.prod([int(x) for x in shape.split(",") if x]))
            for kind, shape in re.findall(r"(\w+)\[([\d,]*)\]", match[2])
        )
    largest = max(sizes.values(), default=1)
    for match in found:
        name, kind = match[1], match[3]
        if kind in _FREE:
            continue
        kernels[kind] += 1
        operands = [sizes.get(word, 0) for word in re.findall(r"%([\w.\-]+)", match[4])]
        moved += sizes[name] + sum(operands)
        if kind == "custom-call":
            line = next(line for line in entry if f"{name} = " in line)
            calls.append(re.search(r'custom_call_target="([^"]+)"', line)[1])
        alone = kind in {"copy", "pad", "transpose", "convert"} or re.search(
            r"pad_fusion|copy_fusion|transpose_fusion|wrapped_(copy|pad|convert|transpose|concat)", name
        )
        if alone and sizes[name] > _LARGE * largest:
            copies.append(f"{name} {sizes[name] / 1e6:.0f} MB")
    return Compiled(
        plan.argument_size_in_bytes, plan.output_size_in_bytes, plan.temp_size_in_bytes, moved, kernels, calls, copies
    )  # fmt: skip


def told(name: str, found: Compiled) -> None:
    """One line a program."""
    kernels = ", ".join(f"{number} {kind}" for kind, number in sorted(found.kernels.items()))
    calls = f"; calls {', '.join(sorted(set(found.calls)))}" if found.calls else ""
    copies = f"; COPIES {', '.join(found.copies)}" if found.copies else ""
    print(
        f"  {name:34s} args {found.arguments / 1e6:9.1f} MB, results {found.results / 1e6:8.1f}, temporaries "
        f"{found.temporaries / 1e6:8.1f}, moved {found.moved / 1e6:9.1f}; {kernels}{calls}{copies}",
        flush=True,
    )


def krylov(card: str, n: int, alpha: float, p: int, dtype: str, only: str) -> None:
    """The programs of a matrix-free run, and its product by the roofline."""
    block, item = 8, np.dtype(dtype).itemsize
    m = round(alpha * n)
    sharding = jax.sharding.SingleDeviceSharding(devices(card)[0])
    for stored in (True, False):
        size = (
            block_size(m, n, dtype, stored=stored)
            if jax.default_backend() != "cpu"
            else _gpu_block(m, n, item)
        )
        print(
            f"N = {n}, alpha = {alpha}, p = {p}, {dtype}, "
            f"rows {'kept' if stored else 'drawn at every product'}, blocks of {size}"
        )
        found = {}
        for program in programs(n, alpha, p, dtype, block=block, size=size, sharding=sharding):
            short = program.name.removeprefix("sims.")
            if (
                short in DENSE
                or only not in short
                or (not stored and program.name not in (HALVES, "sims.operator.operator._add_block"))
            ):
                continue
            found[program.name] = compiled(program.lowered())
            told(short, found[program.name])
        add, draw = found.get("sims.operator.operator._add_block"), found.get(HALVES)
        if add is None or draw is None:
            continue
        rows = 2 * size * gemm_width(-(-n // 2)) * item
        moved = add.moved + (0 if stored else draw.moved)
        _, bandwidth, single, double = CARDS[card]
        blocks = -(-m // size)
        rate = single if dtype == "float32" else double
        seconds = max(blocks * moved / bandwidth, 4 * m * n * p * block / rate)
        print(
            f"  one product of {p * block} columns: {moved / (2 * rows):.2f} times the bytes of two passes over kept rows, "
            f"{blocks} blocks, {1e3 * seconds:.1f} ms by the roofline of {card}; 100 products {100 * seconds:.1f} s",
            flush=True,
        )


def _gpu_block(m: int, n: int, item: int) -> int:
    """Rows of a block on a GPU, of 1 GiB at most."""
    parts = max(1, -(-m * n * item // (1 << 30)))
    return -(-m // parts // 128) * 128


def dense(card: str, only: str) -> None:
    """Batches of dense eigenproblems: which library call, and what it holds."""
    if only and only not in "dense eigh":
        return
    sharding = jax.sharding.SingleDeviceSharding(devices(card)[0])
    for n in (100, 500, 2000):
        for p in (1, 2, 4):
            for dtype in ("float32", "float64"):
                matrix = jax.ShapeDtypeStruct((p * n, p * n), dtype, sharding=sharding)
                told(f"eigh p N = {p * n}, {dtype}", compiled(jax.jit(jnp.linalg.eigh).lower(matrix)))


def several(card: str, n: int, alpha: float, p: int) -> None:
    """The product with rows over 2, 4 and 8 cards: what goes between them."""
    for number in (2, 4, 8):
        mesh = Mesh(np.array(devices(card, number)), (sharded.ROW,))
        size, k = 256 * number, 8

        def spec(
            shape: tuple[int, ...], *axes: Any, of: Any = "float32", mesh: Mesh = mesh
        ) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(shape, of, sharding=NamedSharding(mesh, PartitionSpec(*axes)))

        half = gemm_width(-(-n // 2))
        row = sharded.ROW
        arguments = (
            spec((number, n, p * k), row),
            (spec((size, half), row), spec((size, half), row)),
            None,
            spec((n, p * k)),
            spec((1, size, p), None, row),
            spec((1, size), None, row),
            spec((size, p), row),
        )
        add = sharded._adder(mesh, False).lower(*arguments).compile().as_text()
        total = sharded._sum(mesh).lower(spec((number, n, p * k), row)).compile().as_text()
        words = r"(all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
        print(
            f"{number} cards: a block's share {Counter(re.findall(words, add)) or 'nothing between cards'}, the sum "
            f"{dict(Counter(re.findall(words, total)))} of {4 * n * p * k / 1e6:.1f} MB a product",
            flush=True,
        )


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--card", choices=CARDS, default="h200", help="the card compiled for")
    parser.add_argument("--only", default="", help="programs whose names hold these words")
    parser.add_argument("--quick", action="store_true", help="N = 1e5 in float32 only")
    given = parser.parse_args()
    print(f"compiled for {given.card} by jax {jax.__version__}; nothing is measured")
    with settings():
        cases = [(100_000, 0.6, 2, "float32")]
        if not given.quick:
            cases += [
                (10_000, 2.0, 1, "float32"),
                (10_000, 2.0, 2, "float64"),
                (1_000_000, 0.2, 1, "float32"),
            ]
        for case in cases:
            krylov(given.card, *case, given.only)
        if not given.quick:
            dense(given.card, given.only)
        several(given.card, *cases[0][:3])


if __name__ == "__main__":
    main()
