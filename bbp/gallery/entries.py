"""The list of figures, in the order of the documentation."""

from __future__ import annotations

from bbp.gallery import (
    activations,
    descent,
    edge,
    finite,
    overlaps,
    phi,
    scatter,
    spectra,
    spectral,
    thresholds,
)
from bbp.gallery.base import Entry

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        overlaps.ENTRY,
        thresholds.THRESHOLDS,
        phi.ENTRY,
        thresholds.ALPHA_ZERO,
        spectra.ENTRY,
        thresholds.THRESHOLDS_TWO,
        thresholds.UNDERPARAMETRISED,
        activations.ENTRY,
        descent.ENTRY,
        finite.ENTRY,
        edge.ENTRY,
        scatter.ENTRY,
        spectral.ENTRY,
    )
}
