"""What a card takes, against what `gpu_compile.py` computes for it: measured over computed, line by line.

python -m benchmarks.gpu_large               all parts, the most telling first, each of some two minutes at most
python -m benchmarks.gpu_large --part dense  some of them
python -m benchmarks.gpu_large --tiny        the same steps at toy sizes, on any machine, to see that they run

Results are written to --out after each part, and parts that stand there are not run again (--again runs them). "Computed" is
the roofline of the programs as compiled on the card itself, where XLA has timed its kernels, or of `sims/machine.py`, by the
data sheet of the card found (of an H100 where that is neither). Not yet run on a GPU: nothing of it is quoted anywhere.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.compiled import Compiled, read
from benchmarks.programs import HALVES, Program, descents, programs, solves
from sims import machine
from sims.backend import settings
from sims.density import lanczos_quadrature
from sims.dynamics.flow import Rules
from sims.dynamics.samples import sample_descents
from sims.instance import draw
from sims.krylov import Settings, krylov_bytes
from sims.krylov.solver import lowest_krylov
from sims.operator import HessianOperator, hessian_operator
from sims.rows import block_size
from sims.sampling import sample_grid, sample_point
from theory.model import Network

MODEL = Network(2, 1, 0.3)
ADD = "sims.rows._add_block"
LARGE = {
    "copy": 1 << 31,
    "product": 100_000,
    "pairs": 100_000,
    "programs": 10_000,
    "dense": (100, 200, 500, 1000, 2000),
    "grid": 20_000,
    "density": 100_000,
    "descents": 100,
    "large": 1_000_000,
}
TINY = {
    "copy": 1 << 22,
    "product": 200,
    "pairs": 200,
    "programs": 150,
    "dense": (20, 40),
    "grid": 60,
    "density": 60,
    "descents": 20,
    "large": 300,
}


class Lines:
    """The lines of a part: printed as they come, and kept."""

    def __init__(self, sizes: dict[str, Any]):
        self.sizes, self.found = sizes, {}
        kind = jax.devices()[0].device_kind.lower()
        self.card = next((card for name, card in machine.CARDS.items() if name in kind), machine.CARD)

    def say(self, name: str, measured: float, computed: float, more: str = "") -> None:
        """Seconds, and what they are over those computed."""
        self.found[name] = {"measured": measured, "computed": computed, "more": more}
        print(
            f"  {name}: {1e3 * measured:.3f} ms, {measured / computed:.2f} times the computed {1e3 * computed:.3f} ms"
            f"{'; ' if more else ''}{more}",
            flush=True,
        )

    def seconds(self, program: Program) -> tuple[Compiled, float]:
        """A program as compiled here, and its roofline."""
        found = read(program.lowered().compile())
        item = max(
            (x.dtype.itemsize for x in _arrays(program) if jax.dtypes.issubdtype(x.dtype, np.floating)),
            default=4,
        )
        return found, max(found.seconds(self.card, item), machine.LAUNCH * sum(found.kernels.values()))


def _arrays(program: Program) -> list[Any]:
    return [x for x in jax.tree.leaves(program.arguments) if isinstance(x, jax.ShapeDtypeStruct)]


def _computed_product(
    lines: Lines, n: int, alpha: float, p: int, dtype: str, stored: bool, block: int = 8
) -> float:
    """Seconds of a product by its programs as compiled here."""
    m = round(alpha * n)
    size = block_size(m, n, dtype, stored=stored)
    table = {program.name: program for program in programs(n, alpha, p, dtype, block=block, size=size)}
    wanted = [ADD] if stored else [ADD, HALVES]
    return -(-m // size) * sum(lines.seconds(table[name])[1] for name in wanted)


def product(lines: Lines) -> None:
    """Copy bandwidth; a product with rows kept and drawn, by the vectors in a block."""
    size, n, alpha = lines.sizes["copy"], lines.sizes["product"], 0.6
    source = jnp.ones(size // 4, jnp.float32)
    add = jax.jit(lambda x: x + 1)  # a copy that cannot be left out
    lines.say("copy", best(lambda: add(source), 10), 2 * size / lines.card.bandwidth)
    for stored in (True, False):
        operator = hessian_operator(draw(MODEL, n, alpha, dtype="float32", data=False), stored=stored)
        for k in (8, 1, 16) if stored else (8,):
            columns = jnp.ones((n, 2 * k), jnp.float32)
            took = best(lambda columns=columns, operator=operator: operator.columns(columns), 5)
            computed = _computed_product(lines, n, alpha, 2, "float32", stored, block=k)
            lines.say(f"product, N = {n}, rows {'kept' if stored else 'drawn'}, k = {k}", took, computed)
        del operator


def pairs(lines: Lines) -> None:
    """The lowest six pairs at large N."""
    n, alpha = lines.sizes["pairs"], 1.2 if lines.card.memory > 100e9 else 0.6
    drawn = draw(MODEL, n, alpha, dtype="float32", data=False)
    hessian_operator(drawn, stored=False)  # compiles
    start = time.perf_counter()
    operator = hessian_operator(drawn)
    jax.block_until_ready((operator.parts, operator.rows.stored))
    drawing = round(alpha * n) * n * machine.VARIATE / lines.card.integer
    lines.say(f"rows drawn and kept, N = {n}, alpha = {alpha}", time.perf_counter() - start, drawing)
    for block in (8, 16):
        _solved(lines, operator, Settings(tol=1e-4, block=block))


def _solved(lines: Lines, operator: HessianOperator, how: Settings) -> None:
    warm = Settings(block=how.block, products=4)
    lowest_krylov(operator, 6, degeneracy=2, settings=warm)
    start = time.perf_counter()
    found = lowest_krylov(operator, 6, degeneracy=2, settings=how)
    took = time.perf_counter() - start
    rows, block = operator.rows, how.block or 8
    whole = machine.search_seconds(rows.m, rows.n, operator.p, block, 4, card=lines.card)
    computed = whole * found.stats["products"] / machine.PRODUCTS
    more = f"{found.code.name}, {found.stats['products']} products, residual {np.max(found.residuals):.1e}"
    lines.say(f"six pairs, N = {rows.n}, block {block}", took, computed, more)


def every_program(lines: Lines) -> None:
    """Each compiled program by itself, but what runs on a CPU alone."""
    n = lines.sizes["programs"]
    for dtype in ("float32", "float64"):
        table = programs(n, 2.0, 2, dtype, size=block_size(2 * n, n, dtype))
        for program in (*table, solves(min(n, 1000), 4, dtype)):
            if "threefry._rows" not in program.name and "tridiagonal" not in program.name:
                found, computed = lines.seconds(program)
                if found.calls and "eigh" in program.name:  # of which the text says nothing
                    number, order, _ = program.arguments[0].shape
                    item = np.dtype(dtype).itemsize
                    computed = number * machine.dense_seconds(order, item, together=number, card=lines.card)
                lines.say(f"{program.name.removeprefix('sims.')}, {dtype}", _timed(program), computed)


def _timed(program: Program, repeat: int = 3) -> float:
    """Seconds of a program on ones, those that it takes for itself made anew before each run."""

    def made(x: Any) -> Any:
        if not isinstance(x, jax.ShapeDtypeStruct):
            return x
        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jax.random.key(0)
        return jnp.ones(x.shape, x.dtype)

    arguments, seconds = jax.tree.map(made, program.arguments), []
    for _ in range(repeat + 1):  # the first run compiles
        arguments = jax.tree.map(
            lambda x, shape: made(shape) if isinstance(x, jax.Array) and x.is_deleted() else x,
            arguments,
            program.arguments,
        )
        jax.block_until_ready(arguments)
        start = time.perf_counter()
        jax.block_until_ready(program.function(*arguments, **program.options))
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def dense(lines: Lines) -> None:
    """Samples through the dense matrix, as many as are solved together."""
    for n in lines.sizes["dense"]:
        for p in (1, 2, 4):
            for dtype in ("float32", "float64"):
                item = np.dtype(dtype).itemsize
                number = machine.solved_together(p * n, item)
                if p * n > 4000:
                    continue
                model = Network(p, 1, 0.3)

                def run(model=model, n=n, number=number, dtype=dtype):
                    return sample_point(model, n, 2.0, range(number), 0, dtype=dtype, solver="dense")

                run()
                start = time.perf_counter()
                good = bool(np.all(run().status == 1))
                took = (time.perf_counter() - start) / number
                rows = 2 * n
                build = 2 * rows * n**2 * p * (p + 1) / 2 / lines.card.rate(item)
                drawing = rows * n * machine.VARIATE / lines.card.integer
                computed = (
                    drawing + build + machine.dense_seconds(p * n, item, together=number, card=lines.card)
                )
                lines.say(
                    f"a sample, N = {n}, p = {p}, {dtype}, {number} together", took, computed, f"good {good}"
                )


def grid(lines: Lines) -> None:
    """Sixteen alphas on one draw, and one of them."""
    n = lines.sizes["grid"]
    points = [(MODEL, float(alpha)) for alpha in np.linspace(0.9, 1.5, 16)]
    for chosen, block in ((points[-1:], 8), (points, 4)):
        fixed = {"eigenpairs": 3, "dtype": "float32"}
        sample_grid(chosen, n, settings=Settings(block=block, products=4), **fixed)
        start = time.perf_counter()
        found = sample_grid(chosen, n, settings=Settings(tol=1e-4, block=block), **fixed)
        took, products = time.perf_counter() - start, max(pairs.stats["products"] for pairs in found)
        m, columns = round(1.5 * n), len(chosen) * 2 * block
        product_seconds = machine.product_seconds(m, n, columns, 4, card=lines.card)
        drawing = m * n * machine.VARIATE / lines.card.integer
        computed = drawing + products * (product_seconds + len(chosen) * machine.STEP)
        more = f"{products} products, converged {all(pairs.code == 0 for pairs in found)}"
        lines.say(f"grid of {len(chosen)}, N = {n}, block {block}", took, computed, more)


def density(lines: Lines) -> None:
    """Density of states by 8 probes."""
    n, alpha, steps = lines.sizes["density"], 0.6, 50
    operator = hessian_operator(draw(MODEL, n, alpha, dtype="float32", data=False))
    lanczos_quadrature(operator, probes=8, steps=3)
    start = time.perf_counter()
    lanczos_quadrature(operator, probes=8, steps=steps)
    took = time.perf_counter() - start
    past = 4 * steps * 2 * n * 8 * 4 / lines.card.bandwidth
    one = machine.product_seconds(round(alpha * n), n, 16, 4, card=lines.card) + past
    lines.say(f"density of states, N = {n}, {steps} steps", took, steps * (one + machine.STEP))


def descending(lines: Lines) -> None:
    """Descents side by side: a gradient."""
    n = lines.sizes["descents"]
    for size, number in ((n, 64), (10 * n, 16)):
        for dynamics in ("flow", "steps"):
            rules = Rules(dynamics=dynamics, steps=300)

            def run(size=size, number=number, rules=rules):
                return sample_descents(MODEL, size, 4.0, range(number), rules=rules, batch=number)

            run()
            start = time.perf_counter()
            found = run()
            steps = int(np.max(found.steps))
            took = (time.perf_counter() - start) / steps
            program = descents(size, 4.0, 2, number, "float64", dynamics=dynamics)
            inner, _ = lines.seconds(program)
            loop = inner.loop or inner
            computed = max(loop.seconds(lines.card, 8), machine.LAUNCH * sum(loop.kernels.values()))
            lines.say(
                f"a step of {number} descents, N = {size}, {dynamics}", took, computed, f"{steps} steps"
            )


def large(lines: Lines) -> None:
    """Rows drawn at every product, where they cannot be kept: a product, and the memory of a few steps of a search."""
    n, alpha, model = lines.sizes["large"], 0.2, Network(1, 1, 0.3)
    planned = krylov_bytes(model, n, alpha, eigenpairs=6, dtype="float32", stored=False)
    operator = hessian_operator(draw(model, n, alpha, dtype="float32", data=False), stored=False)
    columns = jnp.ones((n, 8), jnp.float32)
    computed = _computed_product(lines, n, alpha, 1, "float32", False)
    lines.say(f"product, N = {n}, rows drawn", best(lambda: operator.columns(columns), 2), computed)
    lowest_krylov(operator, 6, settings=Settings(products=8))
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    print(f"  memory planned for a whole search {planned / 1e9:.1f} GB, peak of all so far {peak} bytes")


PARTS: dict[str, Callable[[Lines], None]] = {
    "product": product,
    "pairs": pairs,
    "dense": dense,
    "large": large,
    "grid": grid,
    "density": density,
    "descents": descending,
    "programs": every_program,
}


def best(work: Callable[[], Any], repeat: int) -> float:
    """Seconds of the fastest of `repeat` runs after one that compiles."""
    seconds = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        jax.block_until_ready(work())
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def kept(path: Path, device: str) -> dict[str, Any]:
    """What stands in the file, if it is of this device."""
    found = json.loads(path.read_text()) if path.exists() else {}
    return found if found.get("device") == device else {"device": device, "parts": {}}


def main(argv: list[str] | None = None) -> None:
    """Read the options, run the parts that are not done, write after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="toy sizes")
    parser.add_argument("--part", choices=PARTS, action="append", help="of the run (default: all)")
    parser.add_argument("--again", action="store_true", help="parts that are done as well")
    parser.add_argument("--out", type=Path, default=Path("gpu_large.json"), help="file of the results")
    given = parser.parse_args(argv)
    device = (
        f"jax {jax.__version__} on {jax.devices()[0].device_kind} ({jax.default_backend()})"
        + ", tiny" * given.tiny
    )
    found = kept(given.out, device)
    print(device, flush=True)
    for name in given.part or PARTS:
        if name in found["parts"] and not given.again:
            print(f"{name}: stands in {given.out}")
            continue
        lines, start = Lines(TINY if given.tiny else LARGE), time.perf_counter()
        print(f"{name}:", flush=True)
        try:
            with settings():
                PARTS[name](lines)
        except (RuntimeError, ValueError) as error:  # the other parts are worth their time all the same
            print(f"  {name} failed: {str(error).splitlines()[0]}", flush=True)
            continue
        found["parts"][name] = lines.found
        given.out.write_text(json.dumps(found, indent=1))
        print(f"  {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
