"""The model under its first address: `theory.model` is where it lives."""

from theory.model.network import Labels, Network

__all__ = ["Labels", "Network"]
