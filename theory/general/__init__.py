"""Any weight: networks with any activation, loss, noise, covariance and overlap; matrix Dyson equation, spikes, scalar
laws, spectral methods."""

from theory.general.activations import ACTIVATIONS, Activation
from theory.general.covariance import Covariance
from theory.general.losses import LOSSES, Loss
from theory.general.network import Labels, Network

__all__ = ["ACTIVATIONS", "LOSSES", "Activation", "Covariance", "Labels", "Loss", "Network"]
