"""Where the finite-N law is not known to hold, and that every answer of it says so."""

from theory import Committee
from theory.finite.law import finite_curve, finite_law
from theory.finite.questions import share_at
from theory.finite.validity import doubt, doubts


def test_reasons():
    assert doubt(Committee(2, 4, 0.5), 8.0, 90) is None and doubt(Committee(1, 8, 2.0), 50.0, 100) is None
    for model, alpha, n, word in (
        (Committee(5, 1, 1.0), 2.0, 200, "p = 5"),
        (Committee(1, 9, 1.0), 50.0, 200, "p* = 9"),
        (Committee(4, 4, 1.0), 8.0, 200, "p = 4, p* = 4"),
        (Committee(4, 1, 1.0), 1.4, 200, "p = 4: q2 scatters"),
        (Committee(1, 1, 1.0), 2.0, 99, "p N = 99"),
        (Committee(2, 1, 0.05), 2.0, 200, "a = 0.05"),
        (Committee(2, 1, 1.0), 0.2, 200, "alpha = 0.2"),
    ):
        assert word in (doubt(model, alpha, n) or ""), word
    assert doubt(Committee(1, 1, 0.05), 0.2, 200) is None and doubt(Committee(3, 1, 1.0), 1.2, 200) is None


def test_one_line_for_a_grid():
    said = doubts(Committee(2, 1, 1.0), [0.2, 1.0], [20, 30, 200])
    assert said.startswith("N = 20: p N = 40") and "; N = 200: p > 1 at alpha = 0.2" in said
    assert doubts(Committee(1, 1, 1.0), [1.0], [200]) == ""


def test_answers_say_it():
    model = Committee(1, 1, 0.5)
    for said in (
        finite_law(model, 3.0, 40, draws=4).doubt,
        finite_curve(model, [3.0], 40, draws=4).doubt[0],
        share_at(model, 3.0, 40, draws=10).doubt,
    ):
        assert said == "p N = 40 is below 100: shares can be 0.3 off"
    assert finite_law(model, 3.0, 100, draws=4).doubt is None


def test_shares_of_the_lowest_vector_alone_are_known_less_well():
    model = Committee(2, 4, 0.6)
    assert doubt(model, 14.0, 150) is None
    assert "lowest vector alone" in doubt(model, 14.0, 150, "overlap_lowest")
    assert doubt(Committee(1, 4, 0.6), 14.0, 150, "overlap_lowest") is None
