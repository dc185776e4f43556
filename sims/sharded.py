"""The operator with the rows of its data spread over devices.

Each device holds (or draws) its share of every block of rows and multiplies it with the whole of V; the
shares of H V are added up once a product. The Krylov basis lives on the first device of each process, which
all run the same solve. A row is drawn from its own key, so the data are those of one device, whatever the
number of devices, and results agree to the rounding of a different order of summation.

Several hosts: start one process on each, the same program everywhere, and call
`jax.distributed.initialize()` before anything else of JAX; `row_mesh()` then spans the devices of all hosts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sims.backend import pinned
from sims.instance import Instance, data_key
from sims.operator import HessianOperator, weighted
from sims.rows import Block, Part, Rows, block_share, block_size
from sims.threefry import row_block, row_halves
from theory.checks import ParameterError

ROW = "row"
_SPLIT, _SPLIT_SECOND, _WHOLE = PartitionSpec(ROW), PartitionSpec(None, ROW), PartitionSpec()


def row_mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh of one axis over the given devices (default: all that JAX sees, those of other hosts included)."""
    devices = list(jax.devices()) if devices is None else list(devices)
    if not devices:
        raise ParameterError("devices must not be empty")
    return Mesh(np.array(devices), (ROW,))


@dataclass(frozen=True)
class ShardedRows(Rows):
    """Blocks of rows as in `Rows`, each block spread over the devices of a mesh, and so are the weights beside it."""

    mesh: Mesh = field(default_factory=row_mesh)

    def drawn(self, start: int) -> Block:
        """The block from this row on, each device's share from its key."""
        rows = row_block if jax.default_backend() == "cpu" else row_halves
        draw = pinned(_drawer(rows, self.mesh, self.size // self.mesh.size, self.n, str(self.dtype)))
        return draw(self.key, np.uint32(start))

    def product(self, parts: tuple[Part, ...], columns: jax.Array) -> jax.Array:
        """X' F X V for V as columns (n, sets p k), on the first device of this process."""
        mesh = self.mesh
        columns = _replicate(columns, mesh)
        # A sum for each device: they exchange it once a product, not once a block.
        total = _zero_maker(mesh, columns.shape, str(self.dtype))()
        add = _adder(mesh, self.stored is not None and self.stored[0][1] is not None)
        for (block, mirror), (d, c, g) in zip(self, parts, strict=True):
            total = add(total, block, mirror, columns, d, c, g)
        return _sum(mesh)(total).addressable_shards[0].data


@pinned
def sharded_operator(
    instance: Instance, mesh: Mesh | None = None, *, stored: bool = True, size: int | None = None
) -> HessianOperator:
    """The operator of an instance with its rows, drawn from its key, spread over a mesh (default: all devices).

    size  rows in a block on one device
    """
    mesh = row_mesh() if mesh is None else mesh
    m, n, dtype = instance.m, instance.n, np.dtype(instance.student.dtype)
    share = block_size(-(-m // mesh.size), n, dtype, size, stored=stored)
    roots = None if instance.roots is None else jnp.asarray(instance.roots, dtype)
    rows = ShardedRows(m, n, share * mesh.size, dtype, None, data_key(instance.key), roots, mesh)
    if stored:
        mirror = _transposer(mesh) if jax.default_backend() == "cpu" else None
        rows = replace(rows, stored=tuple((b, mirror(b) if mirror else None) for b, _ in rows))
    points = [(instance.model, m)]
    whole = weighted(rows, instance.student, instance.teacher, points, key=instance.key)
    return replace(whole, parts=tuple(_spreader(mesh)(*part) for part in whole.parts))


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


@functools.cache
def _transposer(mesh: Mesh) -> Any:
    return jax.jit(jnp.transpose, out_shardings=NamedSharding(mesh, _SPLIT_SECOND))


@functools.cache
def _spreader(mesh: Mesh) -> Any:
    shardings = tuple(NamedSharding(mesh, spec) for spec in (_SPLIT_SECOND, _SPLIT_SECOND, _SPLIT))
    return jax.jit(lambda d, c, g: (d, c, g), out_shardings=shardings)


@functools.cache
def _zero_maker(mesh: Mesh, shape: tuple[int, ...], dtype: str) -> Any:
    return jax.jit(lambda: jnp.zeros((mesh.size, *shape), dtype), out_shardings=NamedSharding(mesh, _SPLIT))


def _replicate(array: jax.Array, mesh: Mesh) -> jax.Array:
    """An array of this process as one on the whole mesh; every process must give the same."""
    here = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
    copies = [jax.device_put(array, device) for device in here]
    return jax.make_array_from_single_device_arrays(array.shape, NamedSharding(mesh, _WHOLE), copies)
