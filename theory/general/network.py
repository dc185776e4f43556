"""The model under its first address: `theory.model` is where it lives."""

from theory.model.network import Network

__all__ = ["Network"]
