"""Any weight: networks with any activation, loss, noise, covariance and overlap; matrix Dyson equation, spikes, scalar
laws, spectral methods."""

from typing import Any

from theory.answers import Threshold
from theory.general.any_weight import general_spectrum
from theory.general.density import DensityCurve, density, density_curve
from theory.general.first_order import gradient_overlap
from theory.general.results import Found
from theory.general.spectrum import alpha_zero_estimate as alpha_zero
from theory.general.spectrum import model_map, threshold
from theory.general.spectrum import solve as spectrum
from theory.general.spectrum import spectrum as lowest_branch
from theory.model.activations import ACTIVATIONS, Activation
from theory.model.covariance import Covariance
from theory.model.losses import LOSSES, Loss
from theory.model.network import Network

__all__ = [
    "ACTIVATIONS",
    "LOSSES",
    "Activation",
    "Covariance",
    "DensityCurve",
    "Loss",
    "Network",
    "alpha_zero",
    "density",
    "density_curve",
    "general_spectrum",
    "gradient_overlap",
    "lowest_branch",
    "model_map",
    "spectrum",
    "threshold",
]

# First names: all thresholds are one class, and `theory.Spectrum` is along alpha.
_FORMER = {"GeneralSpectrum": Found, "ModelMap": Threshold, "ModelThreshold": Threshold, "Spectrum": Found}


_GONE = {
    "Labels": "a tuple (lam, u, y): theory.Network.draw_labels",
    "ScalarLaw": "theory.general.nodes.given_law(weight, spike, probability, infimum)",
    "activation_weight": "lambda lam, u, xi: model.weights(lam, model.outputs(u)), model = Network(activation=..., a=...)",
}


def __getattr__(name: str) -> Any:
    if name in _FORMER:
        return _FORMER[name]
    if name in _GONE:  # of an AttributeError `from theory.general import ...` would show no words
        raise ImportError(f"theory.general.{name} is now {_GONE[name]}")
    raise AttributeError(f"module 'theory.general' has no attribute {name!r}")
