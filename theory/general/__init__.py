"""Any weight: networks with any activation, loss, noise, covariance and overlap; matrix Dyson equation, spikes, scalar
laws, spectral methods.

`spectrum` here is all that one alpha has (`theory.answers.Found`); `lowest_branch`, edge and lowest outlier along alpha, is
what `theory.spectrum` is. Both lie in the module `theory.general.spectrum`.
"""

from theory.general.any_weight import general_spectrum
from theory.general.density import DensityCurve, density, density_curve
from theory.general.first_order import gradient_overlap
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
