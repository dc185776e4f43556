"""The model: a teacher and a student network, their activations, loss, noise and inputs."""

from theory.model.activations import ACTIVATIONS, Activation, Target
from theory.model.covariance import Covariance, covariance
from theory.model.inputs import Inputs
from theory.model.losses import LOSSES, Loss
from theory.model.network import Network, network

__all__ = [
    "ACTIVATIONS",
    "LOSSES",
    "Activation",
    "Covariance",
    "Inputs",
    "Loss",
    "Network",
    "Target",
    "covariance",
    "network",
]
