"""Every compiled program of `sims` lowers for CUDA on a machine without one, and asks for nothing that a GPU lacks."""

import re
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from benchmarks.compiled import FUNCTION, read
from benchmarks.programs import HALVES, Program, compiled_functions, descents, programs, solves
from sims.backend import settings
from sims.dynamics import run as path
from sims.dynamics.flow import DYNAMICS
from sims.machine import Card
from sims.threefry import row_block, row_halves
from theory import Network

WIDE = {
    "_parts",
    "_in_units",
    "_small",
    "_rotate",
    "_sweep",
    "_normals",
    "_descend",
}  # float64 by design
CALLS = {"cu_threefry2x32_ffi", "cusolver_syevd_ffi"}  # what JAX has on a GPU as a kernel of its own
LARGEST_CONSTANT = 64  # numbers


def descent() -> Program:
    """The program of a small descent, by the arguments that it is called with."""

    class Called(Exception):
        pass

    def caught(*arguments):
        raise Called(*arguments)

    held, path._descend = path._descend, caught
    rng = np.random.default_rng(0)
    try:
        with pytest.raises(Called) as found:
            data, student = rng.normal(size=(2, 128, 9)), rng.normal(size=(2, 2, 9))
            path.descend_batch(Network(2, 1, 0.3), data, np.ones((2, 128)), student, group=2)
    finally:
        path._descend = held
    return Program("sims.dynamics.run._descend", found.value.args)


def complaints(program: Program, text: str, dtype: str) -> list[str]:
    """What a lowered program should not hold."""
    name = program.name.rpartition(".")[2]
    found = [f"{name}: calls {call}" for call in re.findall(r"custom_call @(\w+)", text) if call not in CALLS]
    found += [f"{name}: goes back to the host"] * ("callback" in text)
    found += [f"{name}: float64"] * (dtype == "float32" and "f64" in text and name not in WIDE)
    for shape in re.findall(r"stablehlo.constant dense[^:]*: tensor<((?:\d+x)+)\w+>", text):
        count = int(np.prod([int(x) for x in shape.split("x") if x]))
        found += [f"{name}: a constant of {count} numbers"] * (count > LARGEST_CONSTANT)
    return found


@pytest.mark.parametrize("p, dtype", [(1, "float32"), (2, "float64")])
def test_every_program_lowers_for_cuda(p, dtype):
    """All are in the table of `benchmarks/programs.py`."""
    with settings():
        table = programs(200, 2.0, p, dtype)
        table += [solves(200, 4, dtype)] + [descents(9, 2.0, 2, 2, dtype, dynamics=name) for name in DYNAMICS]
        assert not set(compiled_functions()) - {program.name for program in table}
        found = []
        for program in table:
            found += complaints(program, program.lowered(lowering_platforms=("cuda",)).as_text(), dtype)
        assert not found


def test_descents_of_the_table_are_those_that_run():
    """The shapes and static arguments that `descend` calls its program with."""

    def form(arguments):
        return jax.tree.map(lambda x: (x.shape, x.dtype) if hasattr(x, "shape") else x, arguments)

    with settings():
        assert form(descent().arguments) == form(descents(9, 2.0, 2, 2, "float64").arguments)


def test_what_would_be_complained_of():
    program = Program("here.f", ())
    text = 'stablehlo.custom_call @lapack_dsyevd(%0)\n stablehlo.constant dense<"0x"> : tensor<20x30xf64>'
    assert len(complaints(program, text, "float32")) == 3


@pytest.mark.parametrize("n, dtype", [(11, "float32"), (300, "float64")])
def test_halves_are_the_rows(n, dtype):
    """Bit for bit in the columns that count, whatever the block starts with."""
    key, h = jax.random.key(5), -(-n // 2)
    with settings():
        whole = np.asarray(row_block(key, np.uint32(3), 6, n, dtype))
        first, second = (np.asarray(half) for half in row_halves(key, np.uint32(3), 6, n, dtype))
    assert first.shape[1] % 128 == 0
    joined = np.concatenate([first[:, :h], second[:, : n - h]], axis=1)
    eps = np.finfo(dtype).eps  # the same words; XLA may fuse the transform otherwise
    np.testing.assert_allclose(joined, whole, rtol=8 * eps, atol=8 * eps)
    assert HALVES == "sims.threefry.row_halves"


TEXT = """HloModule jit_f, is_scheduled=true

%inner (p.0: f32[8,4], p.1: f32[4,2]) -> f32[8,2] {
  %p.0 = f32[8,4]{1,0} parameter(0)
  %p.1 = f32[4,2]{1,0} parameter(1)
  ROOT %dot.1 = f32[8,2]{1,0} dot(%p.0, %p.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%body (x: f32[8,2]) -> f32[8,2] {
  %x = f32[8,2]{1,0} parameter(0)
  ROOT %gemm_fusion.2 = f32[8,2]{1,0} fusion(%x, %x), kind=kCustom, calls=%inner
}

ENTRY %main.3 (a: f32[8,4], b: f32[4,2]) -> f32[8,2] {
  %a = f32[8,4]{1,0} parameter(0)
  %b = f32[4,2]{1,0} parameter(1)
  %pad_fusion = f32[8,4]{1,0} pad(%a), padding=0_0x0_0
  %gemm_fusion = f32[8,2]{1,0} fusion(%pad_fusion, %b), kind=kCustom, calls=%inner
  %log.4 = f64[8,2]{1,0} log(%gemm_fusion)
  ROOT %loop = f32[8,2]{1,0} while(%gemm_fusion), condition=%c, body=%body
}
"""


def test_what_is_read_in_a_compiled_text():
    """Bytes of operands and results, operations of products and others, the loop by itself, copies that stand alone."""
    plan = SimpleNamespace(
        argument_size_in_bytes=160, output_size_in_bytes=64, temp_size_in_bytes=5, alias_size_in_bytes=60
    )
    found = read(SimpleNamespace(memory_analysis=lambda: plan, as_text=lambda: TEXT))
    assert found.held == 160 + 4 + 5
    assert found.moved == (128 + 128) + (128 + 32 + 64) + (64 + 128)
    assert (found.products, found.others) == (2 * 8 * 4 * 2, FUNCTION * 16)
    assert found.copies == ["pad_fusion 0.0 MB"] and found.kernels["fusion"] == 1
    assert found.loop is not None and (found.loop.moved, found.loop.products) == (3 * 64, 128)
    assert found.seconds(Card(1, 1.0, 1e9, 1e9, 1e9), 4) == found.moved  # bound by memory
