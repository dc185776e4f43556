"""Any weight: matrix Dyson equation, spikes, scalar laws, spectral methods."""
