"""Any weight: matrix Dyson equation, spikes, scalar laws, spectral methods."""

from theory.general.any_weight import GeneralSpectrum, activation_weight, general_spectrum

__all__ = ["GeneralSpectrum", "activation_weight", "general_spectrum"]
