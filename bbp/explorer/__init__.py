"""The explorer in the browser: state of a page, theory curves, figures, sessions, workers, the exported page."""
