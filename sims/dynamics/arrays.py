"""Loops that are JAX's in a compiled program and Python's on the host, so that a method is written once for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax


def counted(lower: Any, upper: Any, body: Callable[[Any, Any], Any], start: Any) -> Any:
    """jax.lax.fori_loop, or the same by Python where the carried arrays are NumPy's."""
    if _compiled(start):
        return jax.lax.fori_loop(lower, upper, body, start)
    for i in range(int(lower), int(upper)):
        start = body(i, start)
    return start


def repeated(holds: Callable[[Any], Any], body: Callable[[Any], Any], start: Any) -> Any:
    """jax.lax.while_loop, or the same by Python where the carried arrays are NumPy's."""
    if _compiled(start):
        return jax.lax.while_loop(holds, body, start)
    while holds(start):
        start = body(start)
    return start


def either(condition: Any, new: Any, old: Any) -> Any:
    """Leaf by leaf, `new` where the condition holds and else `old`: trees of arrays of one shape."""
    if isinstance(condition, jax.Array):
        return jax.tree.map(lambda a, b: jax.numpy.where(condition, a, b), new, old)
    return new if condition else old


def _compiled(start: Any) -> bool:
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(start))
