"""What a program shares with its user: options, progress, errors, signals."""
