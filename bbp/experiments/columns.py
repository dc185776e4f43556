"""What an experiment's function gives: columns over the samples of a point, declared once, computed and checked anywhere.

Imports neither xarray nor h5py: processes that only compute need not wait for them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbp.console.messages import no_device
from bbp.files import variables
from bbp.files.variables import DONE, FAILED

Columns = dict[str, NDArray[Any]]
BUILT_IN = "bbp"  # the source of an observable that is not one's own


@dataclass(frozen=True)
class Field:
    """A column of what a unit of work gives: numbers, unless bbp.files.variables knows it as integers or text.

    dims    names of its axes, outermost first
    words   what it is, where bbp.files.variables does not say it: the column is an observable then, and its name a new one
    place   of an observable of one's own: where it lies
    source  and the hash of its source
    """

    name: str
    dims: tuple[str, ...]
    words: str = ""
    place: str = ""
    source: str = BUILT_IN

    def __post_init__(self) -> None:
        """ValueError unless one place says what it is."""
        known = variables.words_of(self.name)
        if not self.words and not known:
            raise ValueError(f"column {self.name!r} must have words that say what it is")
        if self.words and known:
            raise ValueError(f"column {self.name!r} must have a name of its own: in files this is {known}")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its values; text as h5py gives it."""
        return np.dtype(variables.column_type(self.name)[0])

    @property
    def attributes(self) -> dict[str, str]:
        """Of its variable in a result: an observable is drawn, tabulated and joined by these."""
        if not self.words:
            return {}
        return {"long_name": self.words, "observable": self.place or self.name, "source": self.source}

    def empty(self, sizes: Mapping[str, int], outer: Sequence[str] = ()) -> NDArray[Any]:
        """Nothing computed: an array over its axes, with those of `outer` before them; lengths by name in `sizes`."""
        fill = variables.column_type(self.name)[1]
        return np.full([sizes[dim] for dim in (*outer, *self.dims)], fill, dtype=self.dtype)

    def check(self, values: NDArray[Any], sizes: Mapping[str, int]) -> None:
        """ValueError unless `values` is of the declared type, and its axes are as long as `sizes` says."""
        found = np.dtype("O") if values.dtype.kind == "U" else values.dtype.newbyteorder("=")
        if found != self.dtype:
            raise ValueError(f"{self.name} is of type {values.dtype}, not {self.dtype}")
        shape = tuple(sizes[dim] for dim in self.dims)
        if values.shape != shape:
            raise ValueError(f"{self.name} has shape {values.shape}, not {shape}")


# How a sample ended, in the columns of every experiment.
ENDINGS = Field("status", ("sample",)), Field("reason", ("sample",))


@dataclass(frozen=True)
class Computation:
    """An experiment's function and the columns it gives; sent to other processes, so its functions are those of modules.

    compute   (record, samples, **hints) -> columns by name, each (len(samples), ...); an exception, or a `reason` that is not
              empty, fails these samples
    declared  the columns, of dims ("sample", ...); `status` and `reason` are added
    sizes     record -> lengths of the axes after "sample", if there are any
    drawn     whether sims draws what `compute` gives: results then state JAX's device and the random stream, where they ran
    """

    compute: Callable[..., Columns]
    declared: tuple[Field, ...]
    sizes: Callable[[Mapping[str, Any]], dict[str, int]] | None = None
    drawn: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns, with how each sample ended."""
        return *self.declared, *ENDINGS

    def columns(self, record: Mapping[str, Any], samples: Sequence[int], hints: Mapping[str, Any]) -> Columns:
        """All columns of these samples. An exception costs the samples it comes from, with the reason, and never the rest."""
        try:
            return self._typed(self.compute(record, samples, **hints), len(samples))
        except Exception as error:
            if len(samples) == 1:
                reason = no_device(error) or f"{type(error).__name__}: {' '.join(str(error).split())}"
                return self.failed(record, 1, reason)
        parts = [self.columns(record, samples[i : i + 1], hints) for i in range(len(samples))]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def failed(self, record: Mapping[str, Any], count: int, reason: str) -> Columns:
        """The columns of so many samples, none of which could be run."""
        columns = {each.name: each.empty(self._lengths(record, count)) for each in self.fields}
        columns["status"][:], columns["reason"][:] = FAILED, reason
        return columns

    def check(self, columns: Mapping[str, NDArray[Any]], record: Mapping[str, Any], count: int) -> None:
        """ValueError or KeyError unless these are the columns of so many samples that were run."""
        for each in self.fields:
            each.check(columns[each.name], self._lengths(record, count))
        if not np.isin(columns["status"], (DONE, FAILED)).all():
            raise ValueError("its status is neither done nor failed")

    def made(self) -> dict[str, str]:
        """What a result computed in this process is made of: versions of packages, and of what is drawn the random stream."""
        if not self.drawn:
            return _versions()
        from sims.instance import STREAM  # late: what draws nothing does without JAX

        return _versions() | {"stream": STREAM}

    def device(self) -> str:
        """What computes in this process: JAX's device, for instance "cpu" or "gpu: NVIDIA H100"."""
        return device() if self.drawn else "cpu"

    def _lengths(self, record: Mapping[str, Any], count: int) -> dict[str, int]:
        return (self.sizes(record) if self.sizes else {}) | {"sample": count}

    def _typed(self, columns: Columns, count: int) -> Columns:
        """Columns of the declared types, with how each sample ended."""
        reason = np.asarray(columns.get("reason", np.full(count, "")), dtype=object)
        columns = {**columns, "reason": reason, "status": np.where(reason == "", DONE, FAILED)}
        names = [each.name for each in self.fields]
        if lacking := [name for name in names if name not in columns]:
            raise ValueError(f"declared, but not computed: {', '.join(lacking)}")
        if unknown := [name for name in columns if name not in names]:
            raise ValueError(f"computed, but not declared: {', '.join(unknown)}")
        return {each.name: np.asarray(columns[each.name]).astype(each.dtype) for each in self.fields}


def per_sample(compute: Callable[..., Columns], *names: str) -> Computation:
    """That of columns of these names, one number or text a sample."""
    return Computation(compute, tuple(Field(name, ("sample",)) for name in names))


def device() -> str:
    """JAX's device in this process."""
    import jax  # late: what draws nothing does without

    found = jax.devices()[0]
    return found.platform if found.device_kind == found.platform else f"{found.platform}: {found.device_kind}"


_versions = functools.cache(variables.versions)
