"""Thresholds of general models over any of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np

from theory.answers import Threshold
from theory.checks import NotConverged, ParameterError, shown
from theory.general.spectrum import threshold
from theory.model.network import Network, network


def model_map(model: Network, **axes: Sequence[Any]) -> Threshold:
    """alpha_BBP on the product of the given values of any parameters of a Network, the rest as in `model`.

    Returns a Threshold of arrays of the lengths of the axes, in their order; of kind "refused" where the parameters make no
    model, "failed" where the threshold was not found, with the reason. Raises ParameterError where an axis is not a parameter,
    or empty.

    >>> found = model_map(Network(activation="tanh"), a=[0.5, 2.0], noise=[0.0, 0.3])
    >>> found.kind.tolist()
    [['refused', 'refused'], ['continuous', 'continuous']]
    >>> found.alpha[1].round(4)
    array([2.509 , 3.1383])
    """
    model = network(model)
    names = {f.name for f in fields(Network)}
    for name, values in axes.items():
        if name not in names:
            raise ParameterError(f"axes must be among {', '.join(sorted(names))}, got {shown(name)}")
        if isinstance(values, str) or not len(values):
            raise ParameterError(f"{name} must be a list of at least one value, got {shown(values)}")
    points = [_at(model, dict(zip(axes, chosen, strict=True))) for chosen in product(*axes.values())]
    shape = tuple(len(values) for values in axes.values())

    def column(name: str) -> Any:
        return np.array([getattr(point, name) for point in points]).reshape(shape)

    return Threshold(**{f.name: column(f.name) for f in fields(Threshold)})


def _at(model: Network, changes: dict[str, Any]) -> Threshold:
    try:
        changed = replace(model, **changes)
    except ParameterError as refusal:
        return Threshold(np.nan, "refused", np.nan, reason=str(refusal))
    try:
        return threshold(changed)
    except (ParameterError, NotConverged) as failure:
        return Threshold(np.nan, "failed", np.nan, reason=str(failure))
