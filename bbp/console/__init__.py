"""What a program shares with its user: options, progress, grids, errors, signals."""
