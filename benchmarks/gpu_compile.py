"""Compile the programs of `sims` for a GPU on a machine without one: what they would move, hold and take there.

pip install jax-cuda12-plugin jax-cuda12-pjrt nvidia-cuda-nvcc-cu12     of JAX's version; no driver
python -m benchmarks.gpu_compile [--card h100|h200] [--part NAME] [--only WORDS]

Nothing here is measured. For each program: bytes that XLA plans (arguments, results, temporaries), bytes that its kernels move,
kernels and library calls, copies and paddings of large arrays that stand alone. From these a roofline, at the published rates
of the card: seconds of a product, of a search, of a sample, of a step. What cuSOLVER does inside is not in the text:
`sims.machine.dense_seconds` is taken. Without a card XLA cannot choose among kernels by timing them, so that a choice may
differ on one. "Two cores" is half of the processor time of `bbp.experiments.samples`, fitted to samples on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bbp.experiments import samples as cost
from benchmarks.compiled import Compiled, compiled, devices
from benchmarks.programs import HALVES, Program, descents, programs, solves
from sims import krylov, machine
from sims import rows as over_devices
from sims.backend import settings
from sims.dynamics import samples
from sims.instance import padded
from sims.krylov import Plan, Settings
from sims.rows import block_size
from sims.solvers.dense import dense_bytes
from sims.threefry import gemm_width
from theory.model import Network

ADD = "sims.rows._add_block"
_DENSE = ("hessian._block", "hessian._joined", "hessian._assembled", "instance._place", "threefry.row_block")
_HOST = ("threefry._rows", "tridiagonal")  # in the table, run on a CPU alone


class Report:
    """What is compiled for one card, and printed."""

    def __init__(self, name: str, only: str):
        self.name, self.card, self.only = name, machine.CARDS[name], only
        self.sharding = jax.sharding.SingleDeviceSharding(devices(name)[0])

    def line(self, program: Program, item: int, label: str = "") -> Compiled:
        """Compile, and print a line where the name is asked for."""
        found = compiled(program.lowered())
        name = label or program.name.removeprefix("sims.")
        if self.only in name:
            kernels = ", ".join(f"{number} {kind}" for kind, number in sorted(found.kernels.items()))
            calls = f"; calls {', '.join(sorted(set(found.calls)))}" if found.calls else ""
            copies = f"; COPIES {', '.join(found.copies)}" if found.copies else ""
            print(
                f"  {name:34s} arguments {found.arguments / 1e6:9.1f} MB, results {found.results / 1e6:8.1f}, "
                f"temporaries {found.temporaries / 1e6:8.1f}, moved {found.moved / 1e6:9.1f}, "
                f"{1e3 * found.seconds(self.card, item):8.3f} ms; {kernels}{calls}{copies}",
                flush=True,
            )
        return found

    def search(self, n: int, alpha: float, p: int, dtype: str) -> None:
        """The programs of a matrix-free run, its product, its memory."""
        item, m, block = np.dtype(dtype).itemsize, round(alpha * n), 8
        size = block_size(m, n, dtype)
        print(f"\nN = {n}, alpha = {alpha}, p = {p}, {dtype}, {-(-m // size)} blocks of {size} rows")
        found = {}
        for program in programs(n, alpha, p, dtype, block=block, size=size, sharding=self.sharding):
            if not any(word in program.name for word in (*_DENSE, *_HOST)):
                found[program.name] = self.line(program, item)
        for stored in (True, False):
            self._search(n, alpha, p, dtype, stored, found)

    def _search(
        self, n: int, alpha: float, p: int, dtype: str, stored: bool, found: dict[str, Compiled]
    ) -> None:
        item, m, block = np.dtype(dtype).itemsize, round(alpha * n), 8
        size = block_size(m, n, dtype, stored=stored)
        blocks, rows = -(-m // size), 2 * size * gemm_width(-(-n // 2)) * item
        add, draw, along = found[ADD], found[HALVES], found["sims.krylov.basis._project"]
        parts = [add] if stored else [add, draw]
        product = blocks * sum(part.seconds(self.card, item) for part in parts)
        moved = sum(part.moved for part in parts) / (2 * rows)
        plan = Plan.of(p * n, np.dtype(dtype), 6, p, Settings())
        steps = (
            plan.basis / plan.width / 2 / 4
        )  # chunks read a product: half of the basis, for four products at once
        search = machine.PRODUCTS * (product + steps * along.seconds(self.card, item) + machine.STEP)
        two = cost.KRYLOV * m * n * p / machine.PRODUCTS / 2 + (0 if stored else cost.DRAW * m * n / 2)
        planned = self.planned(n, alpha, p, dtype, stored)
        room = "" if planned <= machine.ROOM * self.card.memory else " (no room for them)"
        reckoned = machine.search_seconds(m, n, p, block, item, stored=stored, card=self.card)
        print(
            f"rows {'kept' if stored else 'drawn at every product'}{room}: a product of {p * block} columns moves "
            f"{moved:.2f} times the bytes of two passes, {1e3 * product:.2f} ms (two cores {1e3 * two:.0f} ms, "
            f"{two / product:.0f} times); a search of {machine.PRODUCTS} products {search:.2f} s, a pair of six "
            f"{search / 6:.2f} s (`auto` reckons {reckoned:.2f} s for the search)"
        )
        # XLA's own sizes of all that is alive when the basis is contracted: chunks old and new, columns combined, blocks
        chunk = along.arguments - n * p * block * item
        chunks = -(-plan.basis // plan.width) + -(-2 * plan.basis // 5 // plan.width) + 1
        laid = found["sims.krylov.basis._laid"].temporaries + krylov.PANELS * n * p * block * item
        labels = found["sims.operator._parts"].results + found["sims.operator._in_units"].results
        data = (blocks if stored else 2) * draw.results + add.temporaries
        xla = data + blocks * labels + chunks * chunk + laid
        self.told("memory of the search", planned, xla)

    def planned(self, n: int, alpha: float, p: int, dtype: str, stored: bool) -> int:
        """Bytes that the package plans for a search."""
        kept = {"stored": stored, "settings": Settings(mixed=False)}
        return krylov.krylov_bytes(Network(p), n, alpha, eigenpairs=6, dtype=dtype, **kept)

    def told(self, what: str, plan: int, xla: int) -> None:
        """Bytes planned by the package against those of XLA."""
        far = "" if abs(plan / xla - 1) <= 0.1 else "  BEYOND 10 %"
        print(
            f"{what}: {plan / 1e9:.3f} GB planned, {xla / 1e9:.3f} GB by XLA's account, ratio {plan / xla:.3f}{far}"
        )

    def dense(self, n: int, p: int, dtype: str, alpha: float = 2.0) -> None:
        """A dense sample: the draw, the matrix, the eigensolver of as many as are solved together."""
        item, order, rows = np.dtype(dtype).itemsize, p * n, padded(round(alpha * n))
        together = machine.solved_together(order, item)
        print(f"\ndense, N = {n}, alpha = {alpha}, p = {p}, {dtype}: {together} together")
        wanted = ("hessian._block", "hessian._joined", "threefry.row_block", "instance._place")
        size = int(np.gcd(rows, 1024))
        table = programs(n, alpha, p, dtype, size=size, sharding=self.sharding)
        found = {
            name: self.line(program, item)
            for program in table
            for name in wanted
            if name in program.name and (p > 1 or name != "hessian._joined")
        }
        solve = self.line(
            solves(order, together, dtype, sharding=self.sharding), item, f"eigh of {together}, order {order}"
        )
        blocks = p * (p + 1) // 2
        time = {name: one.seconds(self.card, item) for name, one in found.items()}
        draw = rows / size * (time["threefry.row_block"] + time["instance._place"])
        build = blocks * time["hessian._block"] + time.get("hessian._joined", 0)
        eigen = machine.dense_seconds(order, item, together=together, card=self.card)
        two = cost.sample_seconds(p, n, alpha, "dense") / 2
        total = draw + build + eigen
        alone = draw + build + machine.dense_seconds(order, item, card=self.card)
        print(
            f"a sample {1e3 * total:.3f} ms (draw {1e3 * draw:.3f}, matrix {1e3 * build:.3f}, eigenpairs {1e3 * eigen:.3f}; "
            f"two cores {1e3 * two:.1f} ms, {two / total:.0f} times); one alone {1e3 * alone:.3f} ms"
        )
        matrix, held = item * order**2, item * rows * (n + p**2)
        made = found["hessian._block"]
        build_peak = item * blocks * n**2 + made.temporaries
        joined = item * blocks * n**2 + matrix if p > 1 else 0
        workspace = 2 * matrix  # of syevd, which XLA does not know of
        peak = max(build_peak, joined, solve.held / together + workspace) + held
        plan = dense_bytes(Network(p), n, alpha, eigenpairs=p + 4, dtype=dtype)
        self.told("memory of a sample, with the workspace of syevd", plan, int(peak))

    def grid(self, n: int, p: int, dtype: str, sets: int = 16, block: int = 4) -> None:
        """The shared grid: a product of all points in one pass."""
        item, m = np.dtype(dtype).itemsize, round(1.5 * n)
        size = block_size(m, n, dtype)
        print(f"\nshared grid of {sets} alphas up to 1.5, N = {n}, p = {p}, {dtype}, blocks of {block}")
        times = {}
        for points, width in ((sets, block), (1, 8)):
            table = programs(n, 1.5, p, dtype, block=width, size=size, sets=points, sharding=self.sharding)
            (add,) = (
                self.line(program, item, f"rows._add_block, {points}")
                for program in table
                if program.name == ADD
            )
            times[points] = -(-m // size) * add.seconds(self.card, item)
        print(
            f"a product of {sets} points {1e3 * times[sets]:.2f} ms, of one with blocks of 8 {1e3 * times[1]:.2f} ms: "
            f"{times[sets] / times[1]:.1f} times (two cores 6.4 times, docs/large_n.md)"
        )
        peak = krylov.krylov_bytes(Network(p), n, 1.5, eigenpairs=4, dtype=dtype, sets=sets)
        print(f"memory planned {peak / 1e9:.1f} GB")

    def density(self, n: int, alpha: float, p: int, dtype: str) -> None:
        """Density of states: 100 steps of 8 probes."""
        item, m = np.dtype(dtype).itemsize, round(alpha * n)
        size, order = block_size(m, n, dtype), p * n
        print(f"\ndensity of states, N = {n}, alpha = {alpha}, p = {p}, {dtype}, 8 probes, 100 steps")

        def shape(*sizes: int) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(sizes, dtype, sharding=self.sharding)

        vectors, step = shape(order, 8), jax.ShapeDtypeStruct((), np.int64, sharding=self.sharding)
        advance = self.line(
            Program("sims.density._advance", (shape(100, order, 8), vectors, vectors, step)), item
        )
        table = programs(n, alpha, p, dtype, size=size, sharding=self.sharding)
        (add,) = (self.line(program, item) for program in table if program.name == ADD)
        blocks = -(-m // size)
        product, own = blocks * add.seconds(self.card, item), advance.seconds(self.card, item)
        two = cost.KRYLOV * m * n * p / machine.PRODUCTS / 2
        print(
            f"100 steps {100 * (product + own):.2f} s: products {100 * product:.2f}, orthogonalisation {100 * own:.2f} "
            f"(two cores, products alone, {100 * two:.1f} s)"
        )

    def descent(self, n: int, p: int, number: int, dtype: str, dynamics: str, alpha: float = 4.0) -> None:
        """Descents side by side: one step of the innermost loop, which multiplies."""
        item = np.dtype(dtype).itemsize
        program = descents(n, alpha, p, number, dtype, dynamics=dynamics, sharding=self.sharding)
        found = self.line(program, item, f"descent, {dynamics}, N = {n}, {number}, {dtype}")
        if found.loop is not None:
            again, number_of = found.loop, sum(found.loop.kernels.values())
            rows = 2 * number * padded(round(alpha * n)) * n * item
            copies = f"; COPIES {', '.join(again.copies)}" if again.copies else ""
            print(
                f"    a pass of its innermost loop with products moves {again.moved / 1e6:.1f} MB, "
                f"{again.moved / rows:.2f} times two passes over the data, {1e6 * again.seconds(self.card, item):.0f} us; "
                f"{number_of} kernels, {1e6 * machine.LAUNCH * number_of:.0f} us of starts{copies}"
            )
        plan = samples.bytes_needed(
            Network(p), n, alpha, batch=number, records=41, dtype=dtype, hessians=False
        )
        drawn = (
            number * padded(round(alpha * n)) * n * item
        )  # the draws, beside the array that they are stacked in
        self.told("    memory of the descents", plan, found.held + drawn)

    def several(self, n: int, alpha: float, p: int, k: int = 8) -> None:
        """The product with rows over 2, 4 and 8 cards: what goes between them."""
        print("\nseveral cards")
        for number in (2, 4, 8):
            mesh = Mesh(np.array(devices(self.name, number)), (over_devices.ROW,))
            size = number * block_size(-(-round(alpha * n) // number), n, "float32")
            half = gemm_width(-(-n // 2))

            def spec(shape, where, mesh=mesh):
                return jax.ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, where))

            row, second = PartitionSpec(over_devices.ROW), PartitionSpec(None, over_devices.ROW)
            arguments = (
                spec((number, n, p * k), row),
                (spec((size, half), row), spec((size, half), row)),
                None,
                spec((n, p * k), PartitionSpec()),
                spec((1, size, p), second),
                spec((1, size), second),
                spec((size, p), row),
            )
            add = over_devices._adder(mesh, False).lower(*arguments).compile().as_text()
            total = over_devices._sum(mesh).lower(spec((number, n, p * k), row)).compile().as_text()
            words = r"(all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
            print(
                f"{number} cards: a block's share {dict(Counter(re.findall(words, add))) or 'nothing between cards'}, the sum "
                f"{dict(Counter(re.findall(words, total)))} of {4 * n * p * k / 1e6:.1f} MB a product",
                flush=True,
            )

    def choices(self) -> None:
        """What `auto` does on a GPU (`sims/machine.py`): for a card of 80 GB, whatever card is there."""
        print("\nchoices of `auto` on a GPU, computed (sims/machine.py), alpha = 2:")
        print(f"rows are kept where they fit; blocks of rows of {machine.BLOCK_BYTES >> 20} MiB")
        for dtype, item in (("float32", 4), ("float64", 8)):
            for p in (1, 2, 4):
                last = max(n for n in range(100, 26_700, 100) if machine.prefers_dense(2 * n, n, p, item))
                print(f"{dtype}, p = {p}: dense up to p N = {p * last}")
            sizes = {order: machine.solved_together(order, item) for order in (100, 500, 1000, 2000, 4000)}
            print(f"{dtype}: matrices solved together, by order: {sizes}")


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("search", "dense", "grid", "density", "descents", "cards", "choices")
    parser.add_argument("--card", choices=machine.CARDS, action="append", help="compiled for (default: each)")
    parser.add_argument("--part", choices=names, action="append", help="of the report (default: all)")
    parser.add_argument("--only", default="", help="print programs whose names hold these words")
    given = parser.parse_args()
    jax.default_backend()  # the CPU's, before the package is told of a GPU
    parts = given.part or names
    with settings():
        for name in given.card or machine.CARDS:
            print(f"\n==== compiled for {name} by jax {jax.__version__}; nothing of it is measured")
            report(Report(name, given.only), parts)


def report(made: Report, parts: tuple[str, ...]) -> None:
    """The parts asked for. What the package plans, it plans as on a GPU."""
    on_host, jax.default_backend = jax.default_backend, lambda: "gpu"
    try:
        if "search" in parts:
            for case in (
                (100_000, 0.6, 2, "float32"),
                (10_000, 2.0, 1, "float32"),
                (10_000, 2.0, 2, "float64"),
                (100_000, 0.3, 1, "float64"),
                (1_000_000, 0.2, 1, "float32"),
                (1_000_000, 0.2, 2, "float32"),
                (1_000_000, 0.2, 1, "float64"),
            ):
                made.search(*case)
        if "dense" in parts:
            for n in (100, 200, 500, 1000, 2000):
                for p in (1, 2, 4):
                    for dtype in ("float32", "float64"):
                        made.dense(n, p, dtype)
        if "grid" in parts:
            for dtype in ("float32", "float64"):
                made.grid(20_000, 2, dtype)
        if "density" in parts:
            made.density(10_000, 0.5, 1, "float64")
            made.density(100_000, 0.6, 2, "float32")
        if "descents" in parts:
            print("\ndescents, alpha = 4, p = 2")
            for n, number in ((100, 64), (1000, 16)):
                for dtype in ("float32", "float64"):
                    for dynamics in ("flow", "steps"):
                        made.descent(n, 2, number, dtype, dynamics)
        if "cards" in parts:
            made.several(100_000, 0.6, 2)
        if "choices" in parts:
            made.choices()
    finally:
        jax.default_backend = on_host


if __name__ == "__main__":
    main()
