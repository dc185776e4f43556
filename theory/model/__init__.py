"""The model: a teacher and a student network, their activations, loss, noise and inputs.

`Network` is the one model; `Committee(p, p_star, a)` is its first name, from when there were quadratic committees only.
"""

from theory.model.activations import ACTIVATIONS, Activation, Target
from theory.model.covariance import Covariance, covariance
from theory.model.inputs import Inputs
from theory.model.losses import LOSSES, Loss
from theory.model.network import Network, network

Committee = Network

__all__ = [
    "ACTIVATIONS",
    "LOSSES",
    "Activation",
    "Committee",
    "Covariance",
    "Inputs",
    "Loss",
    "Network",
    "Target",
    "covariance",
    "network",
]
