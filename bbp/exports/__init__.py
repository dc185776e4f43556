"""Tables of any file of bbp, as CSV, LaTeX or JSON."""
