"""What XLA makes of a program for a card that need not be there: memory, kernels, library calls, bytes and operations.

Bytes are those of what a kernel reads and writes, once each, as the shapes in the compiled text say. Operations are counted
there too: in products of matrices, and elsewhere one for an entry and `FUNCTION` for a logarithm, a root, a sine.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from math import prod
from typing import Any, NamedTuple

from jax.experimental import topologies

from sims.machine import CARDS, Card

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
FUNCTION = 16
_FUNCTIONS = {
    "log",
    "log-plus-one",
    "exponential",
    "sqrt",
    "rsqrt",
    "sine",
    "cosine",
    "divide",
    "tanh",
    "power",
    "erf",
}
_FREE = {
    "parameter",
    "constant",
    "bitcast",
    "tuple",
    "get-tuple-element",
    "after-all",
    "bitcast-convert",
    "iota",
}
# moves, and two of the three that make a rotation of a word, which is one instruction
_MOVES = {
    "shift-right-logical",
    "or",
    "broadcast",
    "reshape",
    "slice",
    "concatenate",
    "pad",
    "copy",
    "transpose",
    "dynamic-slice",
    "dynamic-update-slice",
}
_LARGE = 0.05  # of the largest array: copies and paddings above it are told
_SHAPE = re.compile(r"(\w+?)(\d*)\[([\d,]*)\]")
_LINE = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*?)\)(?:,|$)(.*)")
_HEAD = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$")
_ALONE = re.compile(r"pad_fusion|copy_fusion|transpose_fusion|wrapped_(copy|pad|convert|transpose|concat)")


class Line(NamedTuple):
    """An instruction: name, bytes and entries of its result, shape of the first array in it, kind, operands, attributes."""

    name: str
    size: int
    entries: int
    kind: str
    operands: list[str]
    attributes: str
    types: str


class Compiled(NamedTuple):
    """What XLA made of a program.

    arguments, results, temporaries  bytes, as planned; results that stand in the place of arguments count with these
    moved      bytes that kernels read and write
    products   operations in products of matrices; others elsewhere
    kernels    by kind; calls of libraries; copies and paddings of large arrays that stand alone
    loop       the same of one pass through the body of the innermost loop that multiplies, None without one
    """

    arguments: int
    results: int
    temporaries: int
    moved: int
    products: int
    others: int
    kernels: Counter[str]
    calls: list[str]
    copies: list[str]
    loop: Compiled | None = None

    @property
    def held(self) -> int:
        """Bytes of all that is there while it runs."""
        return self.arguments + self.results + self.temporaries

    def seconds(self, card: Card, item: int) -> float:
        """By the roofline: memory, products or other operations, whichever takes longest."""
        return max(self.moved / card.bandwidth, self.products / card.rate(item), self.others / card.integer)


def devices(name: str, number: int = 1) -> Any:
    """Devices of that card that exist for the compiler only."""
    card = CARDS[name]
    target = _TARGET.format(bandwidth=int(card.bandwidth), memory=int(card.memory), name=name.upper())
    return topologies.get_topology_desc(
        "name", "cuda", target_config=target, topology=f"{number}x1x1"
    ).devices


def compiled(lowered: Any) -> Compiled:
    """Compile and read the result."""
    return read(lowered.compile())


def read(made: Any) -> Compiled:
    """What XLA made, from a compiled program."""
    plan, text = made.memory_analysis(), made.as_text()
    parts = _computations(text)
    entry = next(name for name in parts if f"\nENTRY %{name} " in text or f"\nENTRY {name} " in text)
    work = _Work(parts)
    inner = [found for name in _bodies(parts) if (found := work.of(name)).products]
    loop = min(inner, key=lambda found: found.moved) if inner else None
    results = plan.output_size_in_bytes - plan.alias_size_in_bytes
    whole = work.of(entry)
    return whole._replace(
        arguments=plan.argument_size_in_bytes,
        results=max(results, 0),
        temporaries=plan.temp_size_in_bytes,
        loop=loop,
    )


def _bodies(parts: dict[str, list[Line]]) -> list[str]:
    """Bodies of loops."""
    found = [re.search(r"body=%?([\w.\-]+)", line.attributes) for lines in parts.values() for line in lines]
    return [match[1] for match in found if match]


def _computations(text: str) -> dict[str, list[Line]]:
    parts: dict[str, list[Line]] = {}
    here: list[Line] = []
    for raw in text.splitlines():
        if head := _HEAD.match(raw):
            here = parts.setdefault(head[1], [])
        elif match := _LINE.match(raw):
            shapes = _SHAPE.findall(match[2])
            counts = [prod(int(x) for x in sizes.split(",") if x) for _, _, sizes in shapes]
            size = sum(
                count * (1 if kind == "pred" else int(bits or 8) // 8)
                for count, (kind, bits, _) in zip(counts, shapes, strict=True)
            )
            operands = re.findall(r"%([\w.\-]+)", match[4])
            here.append(Line(match[1], size, sum(counts), match[3], operands, match[5], match[2]))
    return parts


class _Work:
    """Bytes and operations of computations, each counted once."""

    def __init__(self, parts: dict[str, list[Line]]):
        self.parts = parts
        self.operations = cache(self._operations)

    def of(self, name: str) -> Compiled:
        """Of one computation whose instructions are kernels."""
        lines = self.parts[name]
        sizes = {line.name: line.size for line in lines}
        largest = max(sizes.values(), default=1)
        moved = products = others = 0
        kernels: Counter[str] = Counter()
        calls, copies = [], []
        for line in lines:
            if line.kind in _FREE:
                continue
            kernels[line.kind] += 1
            if line.kind == "while":  # its body counts apart
                continue
            read = [sizes.get(operand, 0) for operand in line.operands]
            if "dynamic-update-slice" in line.name or "dynamic_update_slice" in line.name:  # in its place
                moved += 2 * sum(size for size in read if size < line.size)
            else:
                moved += line.size + sum(read)
            inside = self._of_line(line, {other.name: other for other in lines})
            products, others = products + inside[0], others + inside[1]
            if line.kind == "custom-call":
                calls += re.findall(r'custom_call_target="([^"]+)"', line.attributes)
            alone = line.kind in {"copy", "pad", "transpose", "convert"} or _ALONE.search(line.name)
            if alone and line.size > _LARGE * largest:
                copies.append(f"{line.name} {line.size / 1e6:.1f} MB")
        return Compiled(0, 0, 0, moved, products, others, kernels, calls, copies)

    def _operations(self, name: str) -> tuple[int, int]:
        lines = self.parts.get(name, [])
        known = {line.name: line for line in lines}
        found = [self._of_line(line, known) for line in lines]
        return sum(products for products, _ in found), sum(others for _, others in found)

    def _of_line(self, line: Line, known: dict[str, Line]) -> tuple[int, int]:
        if line.kind in _FREE or line.kind in _MOVES or line.kind in {"while", "custom-call"}:
            return 0, 0
        if line.kind in {"fusion", "call"}:
            match = re.search(r"(?:calls|to_apply)=%?([\w.\-]+)", line.attributes)
            return self.operations(match[1]) if match else (0, 0)
        if line.kind == "dot":
            left = known.get(line.operands[0])
            axes = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", line.attributes)
            if left is None or axes is None:
                return 0, 0
            sizes = [int(x) for x in _SHAPE.findall(left.types)[0][2].split(",") if x]
            return 2 * line.entries * prod(sizes[int(axis)] for axis in axes[1].split(",") if axis), 0
        if line.kind == "reduce":
            return 0, known[line.operands[0]].entries if line.operands[0] in known else line.entries
        return 0, line.entries * (FUNCTION if line.kind in _FUNCTIONS else 1)
