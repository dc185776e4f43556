"""The data of a Hessian in blocks of rows: kept, or drawn again from their key whenever they are needed; on one device or many.

Over a mesh each device holds (or draws) its share of every block and multiplies it with the whole of V; the shares of H V are
added up once a product, on the first device of each process. The Krylov basis lives there too, and all processes run the same
solve. A row is drawn from its own key, so the data are those of one device, whatever the number of devices, and results agree
to the rounding of a different order of summation.

Several hosts: start one process on each, the same program everywhere, and call
`jax.distributed.initialize()` before anything else of JAX; `row_mesh()` then spans the devices of all hosts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sims import machine
from sims.backend import HIGHEST, on_device, pinned
from sims.checks import of_type
from sims.instance import Instance, data_key, padded
from sims.threefry import gemm_width, row_block, row_halves
from theory.checks import ParameterError, count

Block = jax.Array | tuple[jax.Array, jax.Array]  # (size, n), or halves of its columns
Part = tuple[
    jax.Array, jax.Array, jax.Array
]  # weights of a block: d (sets, size, p), c (sets, size), g (size, p)
# data in one block of rows that is drawn at every pass
BLOCK_BYTES = {"cpu": 16 << 20, "gpu": machine.BLOCK_BYTES}
# of one that is kept: larger on a CPU, for fewer and faster products
STORED_BYTES = {"cpu": 256 << 20, "gpu": machine.BLOCK_BYTES}
ROW = "row"  # axis of a mesh
_SPLIT, _SPLIT_SECOND, _WHOLE = PartitionSpec(ROW), PartitionSpec(None, ROW), PartitionSpec()
_FEW = 16  # student rows that are written out one by one in a compiled step


@dataclass(frozen=True)
class Rows:
    """Blocks of rows of the data, all of one shape (size, n); rows from M on are zero or carry weight zero.

    On a GPU a block is a pair of halves of its columns, each filled up to a width that products need no copy for
    (`sims.threefry.row_halves`); `times` and `across` take either form.

    stored  one pair (block, its transpose (n, size) or None) for each block; None: drawn when needed
    key     key of the rows (`data_key`), for blocks drawn when needed
    roots   (n,) by which the columns of the blocks are multiplied to make inputs of covariance Sigma; None: by nothing
    mesh    devices over which each block, and the weights beside it, are spread; None: on one

    The transpose is a second copy, for the CPU: XLA's product with a row-major matrix reads it at the speed of the memory bus,
    that with its transpose at a third of it.
    """

    m: int
    n: int
    size: int
    dtype: np.dtype
    stored: tuple[tuple[Block, jax.Array | None], ...] | None
    key: jax.Array
    roots: jax.Array | None = None
    mesh: Mesh | None = None

    def lowered(self) -> Rows | None:
        """The same rows rounded to float32; None where they are not stored."""
        if self.stored is None:
            return None
        stored, roots = single((self.stored, self.roots))
        return replace(self, dtype=np.dtype("float32"), stored=stored, roots=roots)

    def __iter__(self) -> Iterator[tuple[Block, jax.Array | None]]:
        if self.stored is not None:
            yield from self.stored
            return
        for start in range(0, self.m, self.size):
            yield self.drawn(start), None

    def drawn(self, start: int) -> Block:
        """The block from this row on, from its key: whole for the CPU, in halves for a GPU; each device's share by itself."""
        draw: Any = row_block if jax.default_backend() == "cpu" else row_halves
        if self.mesh is None:
            return draw(self.key, np.uint32(start), self.size, self.n, str(self.dtype))
        share = self.size // self.mesh.size
        return pinned(_drawer(draw, self.mesh, share, self.n, str(self.dtype)))(self.key, np.uint32(start))

    def beside(self, part: Part) -> Part:
        """The weights of a block where its rows are."""
        if self.mesh is None:
            return part
        places = (NamedSharding(self.mesh, spec) for spec in (_SPLIT_SECOND, _SPLIT_SECOND, _SPLIT))
        d, c, g = (jax.device_put(*both) for both in zip(part, places, strict=True))
        return d, c, g

    def product(self, parts: tuple[Part, ...], columns: jax.Array) -> jax.Array:
        """X' F X V for V as columns (n, sets p k), F from its parts, one a block; without the covariance. Over a mesh it is on
        the first device of this process."""
        mesh, total, add = self.mesh, None, _add_block
        if mesh is not None:
            columns = _replicate(columns, mesh)
            # A sum for each device: they exchange it once a product, not once a block.
            total = jnp.zeros((mesh.size, *columns.shape), self.dtype, device=NamedSharding(mesh, _SPLIT))
            add = _adder(mesh, self.stored is not None and self.stored[0][1] is not None)
        for (block, mirror), part in zip(self, parts, strict=True):
            total = add(total, block, mirror, columns, *part)
        assert total is not None  # M is at least 1
        return total if mesh is None else _sum(mesh)(total).addressable_shards[0].data


def row_mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh of one axis over the given devices (default: all that JAX sees, those of other hosts included)."""
    devices = list(jax.devices()) if devices is None else list(devices)
    if not devices:
        raise ParameterError("devices must not be empty")
    return Mesh(np.array(devices), (ROW,))


def times(block: Block, columns: jax.Array) -> jax.Array:
    """X V for a block X of rows and V (n, k)."""
    if isinstance(block, tuple):
        h = -(-columns.shape[0] // 2)
        return times(block[0], columns[:h]) + times(block[1], columns[h:])
    # Columns that fill up a block on a GPU are not zero: they meet zeros.
    filling = block.shape[1] - columns.shape[0]
    columns = jnp.pad(columns, ((0, filling), (0, 0))) if filling else columns
    return jnp.matmul(block, columns, precision=HIGHEST)


def across(block: Block, mirror: jax.Array | None, z: jax.Array, n: int) -> jax.Array:
    """X^T Z (n, k) for a block X of rows, by its transpose `mirror` where that is kept."""
    if isinstance(block, tuple):
        h = -(-n // 2)
        return jnp.concatenate([across(block[0], None, z, h), across(block[1], None, z, n - h)])
    return jnp.matmul(block.T if mirror is None else mirror, z, precision=HIGHEST)[:n]


def block_share(
    block: Block, mirror: jax.Array | None, columns: jax.Array, d: jax.Array, c: jax.Array, g: jax.Array
) -> jax.Array:
    """The share of one block of rows in H V: columns (N, sets p k) -> (N, sets p k)."""
    size, p = g.shape
    y = times(block, columns).reshape(size, d.shape[0], p, -1)
    z = (_few_rows if p <= _FEW else _many_rows)(y, d.transpose(1, 0, 2), c.T[:, :, None], g)
    return across(block, mirror, z.reshape(size, -1), len(columns))


def _few_rows(y: jax.Array, d: jax.Array, c: jax.Array, g: jax.Array) -> jax.Array:
    """F y for y (size, sets, p, k), student rows one by one: a sum over their axis is ten times slower on the CPU."""
    rows = range(g.shape[1])
    along = sum(g[:, q, None, None] * y[:, :, q] for q in rows) * c
    return jnp.stack(
        [d[:, :, q, None] * y[:, :, q] + g[:, q, None, None] * along for q in rows],
        axis=2,
    )


def _many_rows(y: jax.Array, d: jax.Array, c: jax.Array, g: jax.Array) -> jax.Array:
    """The same for any p, in a program whose size does not grow with it."""
    along = jnp.einsum("mq,msqk->msk", g, y, precision=HIGHEST) * c
    return d[..., None] * y + g[:, None, :, None] * along[:, :, None, :]


@functools.partial(jax.jit, donate_argnums=0)
def _add_block(total: jax.Array | None, *block: Any) -> jax.Array:
    """The sum so far with the share of one block more, in its memory."""
    share = block_share(*block)
    return share if total is None else total + share


def block_size(m: int, n: int, dtype: Any, size: int | None = None, *, stored: bool = True) -> int:
    """Rows in a block, `padded`: m in equal parts of at most STORED_BYTES (BLOCK_BYTES), of `machine.ROWS` at least on a GPU;
    or `size` as given."""
    if size is not None:
        return count("block size", size)
    targets = STORED_BYTES if stored else BLOCK_BYTES
    target = targets.get(jax.default_backend(), targets["gpu"])
    parts = max(1, -(-m * n * np.dtype(dtype).itemsize // target))
    if jax.default_backend() != "cpu":
        # Beside a short block the vectors that are read and written would take the time.
        parts = min(parts, -(-m // machine.ROWS))
    return padded(-(-m // parts))


@pinned
def rows_of(
    instance: Instance,
    *,
    stored: bool = True,
    size: int | None = None,
    mesh: Mesh | None = None,
) -> Rows:
    """The data of one instance, its covariance in them.

    stored  False: drawn again at every product. Data that the instance already carries are else cut into blocks (a copy: let go
            of the instance), as those on inputs of one's own always are
    size    rows in a block on one device (default: by bytes, `block_size`)
    mesh    devices over which the rows are spread, drawn from their key; not those on inputs of one's own
    """
    dtype = np.dtype(of_type("instance", instance, Instance).student.dtype)
    m, n, data = instance.m, instance.n, None if mesh is not None else instance.data
    if mesh is not None and instance.model.inputs is not None:
        raise ParameterError("mesh must be None with inputs of one's own, whose rows have no key")
    # Inputs of one's own cannot be drawn again from a key.
    held = data is not None and (stored or instance.model.inputs is not None)
    on_host = jax.default_backend() == "cpu"
    devices = 1 if mesh is None else mesh.size
    size = devices * block_size(-(-m // devices), n, dtype, size, stored=stored or held)
    # Rows that the instance carries have Sigma in them.
    roots = None if held or instance.roots is None else on_device(instance.roots, dtype)
    rows = Rows(m, n, size, dtype, None, data_key(instance.key), roots, mesh)
    if held and data is not None:
        filling, xp = (0, np) if on_host else (gemm_width(n) - n, jnp)
        data = xp.asarray(data)
        cut = [data[start : start + size] for start in range(0, m, size)]
        padding = [((0, size - len(block)), (0, filling)) for block in cut]
        blocks: list[Any] = [jax.device_put(xp.pad(*both)) for both in zip(cut, padding, strict=True)]
    elif stored:
        blocks = [block for block, _ in rows]
    else:
        return rows
    return replace(rows, stored=tuple((block, transposed(block) if on_host else None) for block in blocks))


@jax.jit
def single(arrays: Any) -> Any:
    """A tree of arrays, rounded to float32."""
    return jax.tree.map(lambda x: x.astype(jnp.float32), arrays)


transposed = jax.jit(jnp.transpose)  # laid out anew; over several devices it lies where the rows do


@functools.cache
def _drawer(rows: Callable[..., Block], mesh: Mesh, share: int, n: int, dtype: str) -> Any:
    def draw(key: jax.Array, start: jax.Array) -> Block:
        # Rows are numbered through the devices, so that the data are those of one.
        return rows(key, start + jax.lax.axis_index(ROW).astype(jnp.uint32) * share, share, n, dtype)

    return jax.jit(jax.shard_map(draw, mesh=mesh, in_specs=_WHOLE, out_specs=_SPLIT, check_vma=False))


@functools.cache
def _adder(mesh: Mesh, mirrored: bool) -> Any:
    def add(total: jax.Array, *block: Any) -> jax.Array:
        return total + block_share(*block)[None]

    specs = (
        _SPLIT,
        _SPLIT,
        _SPLIT_SECOND if mirrored else _WHOLE,
        _WHOLE,
        _SPLIT_SECOND,
        _SPLIT_SECOND,
        _SPLIT,
    )
    return jax.jit(
        jax.shard_map(add, mesh=mesh, in_specs=specs, out_specs=_SPLIT, check_vma=False), donate_argnums=0
    )


@functools.cache
def _sum(mesh: Mesh) -> Any:
    return jax.jit(lambda total: jnp.sum(total, axis=0), out_shardings=NamedSharding(mesh, _WHOLE))


def _replicate(array: jax.Array, mesh: Mesh) -> jax.Array:
    """An array of this process as one on the whole mesh; every process must give the same."""
    here = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
    copies = [jax.device_put(array, device) for device in here]
    return jax.make_array_from_single_device_arrays(array.shape, NamedSharding(mesh, _WHOLE), copies)
