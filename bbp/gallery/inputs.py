"""Rows of one's own: lowest eigenvalue and overlap on data that ship inside scikit-learn and scikit-image, beside theory with
the covariance alone, theory with scales of the rows, and its verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bbp.console.messages import RunError
from bbp.gallery import Array, Arrays, Data, Effort, figure
from bbp.plots import layout, style
from theory.given import marks
from theory.model import Inputs, Network

ALPHA = (2.0, 4.0, 8.0)
GREY, COLOURED, PATCHES = 16, 9, 20_000  # side of a patch, of one with colours; patches of a picture
NUMBERS = (
    "found", "found_error", "q2", "q2_error", "gaussian", "gaussian_q2", "elliptical", "elliptical_q2",
    "theory", "theory_error", "theory_q2", "theory_q2_error", "spread", "raw", "whitened",
)  # fmt: skip
LOOKS = {"Gaussian": (style.BLUE, "o"), "elliptical": (style.VERMILION, "s"), "neither": (style.GREY, "x")}


def table(name: str) -> Array:
    """Rows of one of scikit-learn's tables."""
    from sklearn import datasets

    return np.asarray(getattr(datasets, f"load_{name}")().data)


def picture(name: str) -> Array:
    """A picture (height, width[, 3]), of scikit-learn or scikit-image."""
    if name in ("china", "flower"):
        from sklearn.datasets import load_sample_image

        return np.asarray(load_sample_image(f"{name}.jpg"), float)
    from skimage import data

    return np.asarray(getattr(data, name)(), float)


def patches(image: Array, size: int) -> Array:
    """PATCHES squares (PATCHES, size size channels) of a picture at random places of seed 0."""
    rng = np.random.default_rng(0)
    top, left = (rng.integers(0, length - size, PATCHES) for length in image.shape[:2])
    return np.stack([image[i : i + size, j : j + size].ravel() for i, j in zip(top, left, strict=True)])


def grey(image: Array) -> Array:
    """Patches of a picture without its colours."""
    return patches(image if image.ndim == 2 else image.mean(axis=2), GREY)


def whitened(rows: Array) -> Array:
    """Rows of covariance 1 in the directions that vary."""
    rows = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    kept = values > 1e-6 * values[-1]
    return rows @ vectors[:, kept] / np.sqrt(values[kept])


def normalised(rows: Array) -> Array:
    """Each row less its mean, of norm 1 (contrast normalisation); rows without contrast are left out."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(rows, axis=1)
    kept = norms > 1e-6 * norms.max()
    return rows[kept] / norms[kept, None]


def standardised(rows: Array) -> Array:
    """Columns of mean 0 and variance 1; constant ones as they are."""
    spread = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1)


SETS: dict[str, Callable[[], Array]] = {
    "digits": lambda: table("digits"),
    "breast cancer, standardised": lambda: standardised(table("breast_cancer")),
    "wine, standardised": lambda: standardised(table("wine")),
    "diabetes": lambda: table("diabetes"),
    "china, grey patches": lambda: grey(picture("china")),
    "china, whitened": lambda: whitened(grey(picture("china"))),
    "china, contrast-normalised": lambda: normalised(grey(picture("china"))),
    "china, contrast-normalised, whitened": lambda: whitened(normalised(grey(picture("china")))),
    "china, colour patches": lambda: patches(picture("china"), COLOURED),
    "china, colour whitened": lambda: whitened(patches(picture("china"), COLOURED)),
    "flower, whitened": lambda: whitened(grey(picture("flower"))),
    "flower, contrast-normalised": lambda: normalised(grey(picture("flower"))),
    "camera, whitened": lambda: whitened(grey(picture("camera"))),
    "camera, contrast-normalised": lambda: normalised(grey(picture("camera"))),
    "coins, whitened": lambda: whitened(grey(picture("coins"))),
    "coins, contrast-normalised": lambda: normalised(grey(picture("coins"))),
}


def measured(name: str, rows: Array, alpha: float, samples: int, seed: int) -> dict[str, Any]:
    """One set at one alpha, a = 0.5: the verdict of draws of `seed`; of others what is found, and what both laws say."""
    from sims import given, sample  # late: it brings JAX

    inputs = Inputs.of(rows, name=name)
    model, own = Network(a=0.5, inputs=inputs), marks(inputs)
    verdict = given.judged(model, alpha, samples, 4 * samples, seed)
    fresh = sample(model, inputs.n, alpha, range(samples), seed + 1, eigenpairs=1)
    said = given.predictions(model, inputs.n, alpha, range(samples), seed + 1)
    values = np.column_stack([fresh.eigenvalues, fresh.overlaps, said[:, :4]])
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(samples)
    return {
        "set": name, "rows": inputs.count, "n": inputs.n, "alpha": alpha, "verdict": verdict.kind, "why": verdict.reason,
        "theory": verdict.lowest, "theory_error": verdict.lowest_error,
        "theory_q2": verdict.overlap, "theory_q2_error": verdict.overlap_error,
        "found": mean[0], "found_error": error[0], "q2": mean[1], "q2_error": error[1],
        "gaussian": mean[2], "elliptical": mean[3], "gaussian_q2": mean[4], "elliptical_q2": mean[5],
        "spread": own.spread, "raw": own.raw, "whitened": own.whitened, "apart": own.apart,
    }  # fmt: skip


def build(effort: Effort) -> Arrays:
    """Every set at every alpha that it has rows for; a quarter of an hour on an idle core."""
    samples, found = effort.count(16, 32), []
    try:
        sets = {name: rows() for name, rows in SETS.items()}
    except ImportError as error:
        raise RunError(f"this needs {error.name}: pip install 'hessian-bbp[inputs]'") from None
    for name, rows in sets.items():
        for alpha in (alpha for alpha in ALPHA if round(alpha * rows.shape[1]) <= len(rows)):
            found.append(measured(name, rows, alpha, samples, effort.seed))
    return arrays(found)


def arrays(found: list[dict[str, Any]]) -> Arrays:
    """The arrays of the figure from its rows."""
    kinds = dict.fromkeys(("alpha", *NUMBERS, "rows", "n")) | dict.fromkeys(("set", "verdict", "why"), object)
    return {
        name: ("case", np.array([row[name] for row in found], dtype=kind)) for name, kind in kinds.items()
    }


@figure("inputs", build)
def inputs(data: Data) -> Figure:
    """Rows of one's own instead of Gaussian ones, 16 data sets at up to three alpha (p = p* = 1, a = 0.5): the mean lowest
    eigenvalue and its squared overlap by theory against those of Hessians of the data. With the covariance alone theory is
    off by up to a factor of a hundred; with a scale of each row it is right where the verdict, of others, names a law.
    """
    fig, (values, overlaps) = layout.figure(2, 3.4)
    for ax, name, end in ((values, "found", ""), (overlaps, "q2", "_q2")):
        x = data[name]
        label = "covariance alone, no verdict asked"
        ax.plot(x, data[f"gaussian{end}"], ".", color=style.SKY, markersize=4, label=label)
        for kind, (colour, mark) in LOOKS.items():
            here = data["verdict"].astype(str) == kind
            look: dict[str, Any] = {"color": colour, "marker": mark, "linestyle": "none", "markersize": 4}
            if here.any():
                said, label = data[f"elliptical{end}"][here], f"with scales, {kind}"
                ax.plot(x[here], said, markerfacecolor="none", label=label, **look)
    low = min(data["found"].min(), data["elliptical"].min())
    values.set_xscale("symlog", linthresh=1)
    values.set_yscale("symlog", linthresh=1)
    values.plot([1.3 * low, 10], [1.3 * low, 10], color=style.BLACK, linewidth=0.8, label="equality")
    overlaps.plot([0, 1], [0, 1], color=style.BLACK, linewidth=0.8)
    top = 1.1 * max(data["q2"].max(), np.nanmax(data["elliptical_q2"]))
    overlaps.set(xlim=(0, top), ylim=(0, top), xlabel="$q^2$, Hessians of the data", ylabel="$q^2$, theory")
    values.set(xlabel=r"$\lambda_1$, Hessians of the data", ylabel=r"$\lambda_1$, theory")
    layout.legend_above(fig, [values], 3)
    return fig
