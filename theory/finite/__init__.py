"""Finite N: quenched theory of a draw of labels, thresholds, laws of the edge."""
