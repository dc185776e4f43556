r"""Heads of columns in LaTeX: the field's symbols, and words where it has none.

A name of several words ends in that of a symbol more often than not, and its other words say which: erf_alpha_bbp is
"erf $\alpha_\mathrm{BBP}$".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

SYMBOLS = {
    "n": "$N$",
    "p": "$p$",
    "p_star": "$p^*$",
    "a": "$a$",
    "finite_a": "$a$",
    "m2": "$m^2$",
    "alpha": r"$\alpha$",
    "alpha_bbp": r"$\alpha_\mathrm{BBP}$",
    "alpha_bbp_n": r"$\alpha_\mathrm{BBP}(N)$",
    "alpha_0": r"$\alpha_0$",
    "alpha_0_overlap": r"$\alpha_0$, overlap",
    "alpha_0_continuation": r"$\alpha_0$, continuation",
    "a_c": "$a_c$",
    "p_c": "$p_c$",
    "alpha_c": r"$\alpha_\mathrm{BBP}(a_c)$",
    "jump": r"$\Delta q^2$",
    "lowest": r"$\lambda_1$",
    "eigenvalue": r"$\lambda$",
    "eigenvalues": r"$\lambda$",
    "overlap": "$q^2$",
    "overlaps": "$q^2$",
    "overlap_matrix": r"$w_k \cdot w^*_l / N$",
    "phi": r"$\phi$",
    "phi_group": r"$\phi_{pp^*}$",
    "gap": r"$\Delta\lambda$",
    "edge": r"$\lambda_-$",
    "outlier": r"$\lambda_\mathrm{out}$",
    "theory_edge": r"$\lambda_-$",
    "theory_outlier": r"$\lambda_\mathrm{out}$",
    "theory_overlap": r"$q^2$ of $\lambda_\mathrm{out}$",
    "theory_n_lowest": r"$\lambda_1$, theory",
    "theory_n_overlap": "$q^2$, theory",
    "theory_n_phi_group": r"$\phi_{pp^*}$, theory",
    "theory_n_lowest_std": r"$\lambda_1$, theory, scatter",
    "theory_n_overlap_std": "$q^2$, theory, scatter",
    "lowest_std": r"$\lambda_1$, scatter",
    "overlap_std": "$q^2$, scatter",
    "success": "recovered",
    "elsewhere": "ended elsewhere",
    "moving": "still moving",
    "final": "$m^2$, end",
    "initial": "$m^2$, start",
    "crossing_n_small": "$N_1$",
    "crossing_n_large": "$N_2$",
    "crossing_alpha": r"$\alpha$",
    "crossing_found": "fits that cross",
    "crossing_verdict": "verdict",
    "shift_alpha": r"$\alpha$",
    "shift_kind": "edge",
    "shift_preferred": "law preferred",
    "shift_decisive": "decisive",
    "shift_chi2_power": r"$\chi^2$, power",
    "shift_chi2_logarithm": r"$\chi^2$, logarithm",
    "shift_degrees": "degrees",
    "shift_exponent": "exponent",
    "shift_coefficient_power": "coefficient, power",
    "shift_coefficient_logarithm": "coefficient, logarithm",
    "alpha_zero_n": "$N$",
    "alpha_zero_sampled": r"$\alpha_0$, samples",
    "alpha_zero_verdict": "verdict",
}
_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def heads(names: Sequence[str]) -> list[str]:
    r"""The heads of a table's columns, no two alike.

    >>> heads(["alpha", "overlap", "overlaps", "max_overlap_rank"])
    ['$\\alpha$', '$q^2$, overlap', '$q^2$, overlaps', 'max overlap rank']
    """
    found = [_head(name) for name in names]
    often = Counter(found)
    return [
        f"{head}, {_words(name.split('_'))}" if often[head] > 1 else head
        for head, name in zip(found, names, strict=True)
    ]


def escaped(text: str) -> str:
    r"""Text with the characters that LaTeX takes for its own spelled out.

    >>> escaped("p_c & 5%")
    'p\\_c \\& 5\\%'
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _head(name: str) -> str:
    words = name.split("_")
    for start in range(len(words)):
        symbol = SYMBOLS.get("_".join(words[start:]))
        if symbol is not None:
            return " ".join(filter(None, [_words(words[:start]), symbol]))
    return _words(words)


def _words(words: Sequence[str]) -> str:
    return escaped(" ".join(words))
