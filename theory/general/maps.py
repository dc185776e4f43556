"""Thresholds of general models over any of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.checks import NotConverged, ParameterError, shown
from theory.general.results import ModelThreshold
from theory.general.spectrum import threshold
from theory.model.network import Network, network


@dataclass(frozen=True)
class ModelMap:
    """Thresholds on a grid of parameters: arrays of the lengths of `axes`, in their order; NaN where there is none.

    axes                     name and values of each parameter
    alpha, alpha_error       as in ModelThreshold
    kind                     texts: those of ModelThreshold, "refused" where the parameters do not make a model, "failed" where
                             the threshold was not found
    overlap, overlap_error   squared overlap just above
    until                    where the outlier enters the bulk again
    reason                   texts, empty where there is a threshold
    alpha_0, alpha_0_error   as in ModelThreshold
    """

    axes: tuple[tuple[str, tuple[Any, ...]], ...]
    alpha: NDArray[np.float64]
    alpha_error: NDArray[np.float64]
    kind: NDArray[np.str_]
    overlap: NDArray[np.float64]
    overlap_error: NDArray[np.float64]
    until: NDArray[np.float64]
    reason: NDArray[np.str_]
    alpha_0: NDArray[np.float64]
    alpha_0_error: NDArray[np.float64]


def model_map(model: Network, **axes: Sequence[Any]) -> ModelMap:
    """alpha_BBP on the product of the given values of any parameters of a Network, the rest as in `model`.

    Raises ParameterError where an axis is not a parameter, or empty. A point that is no model, or fails, says so in its kind.

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

    parts = [f.name for f in fields(ModelMap)][1:]
    return ModelMap(tuple((k, tuple(v)) for k, v in axes.items()), *(column(name) for name in parts))


def _at(model: Network, changes: dict[str, Any]) -> ModelThreshold:
    try:
        changed = replace(model, **changes)
    except ParameterError as refusal:
        return ModelThreshold(np.nan, "refused", np.nan, reason=str(refusal))
    try:
        return threshold(changed)
    except (ParameterError, NotConverged) as failure:
        return ModelThreshold(np.nan, "failed", np.nan, reason=str(failure))
