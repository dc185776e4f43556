"""What a program hands to the engine: sweeps, descents, phase diagrams."""
