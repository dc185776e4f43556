"""The commands of `bbp`, each a module of this package. Imports nothing: `bbp --help` is answered at once."""

COMMANDS = {
    "sweep": "sample Hessians over alpha beside the theory, into one HDF5 file",
    "phase": "thresholds alpha_BBP, their kind and overlap jump over (p, a)",
    "compare": "finite-N samples against theory: a table and a figure",
    "fit": "laws in N of what samples of several sizes say",
    "join": "several sweeps, or descents, in one file",
    "quantile": "at which alpha, in what share of draws, at which N the signal shows",
    "plot": "the figure that fits a file",
    "export": "a table of any file as CSV, LaTeX or JSON",
    "figures": "every figure of the documentation",
    "descent": "gradient descent and the Hessian along it",
    "explore": "the model in the browser: curves that move, samples, phases",
    "info": "what is in this file",
}


def overview() -> str:
    """The text of `bbp --help`."""
    lines = [f"  {name:9} {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: bbp [-h] [--version] COMMAND ...",
            "",
            "Hessian BBP transitions of quadratic teacher-student networks: theory, samples, figures.",
            "",
            "commands (each also as python -m bbp.COMMAND):",
            *lines,
            "",
            "example:",
            "  bbp sweep --alpha-grid --p 1 --a 1.0 --n 400 --samples 16 --out results/sweep.h5",
            "  bbp plot results/sweep.h5 --out sweep.png",
        ]
    )
