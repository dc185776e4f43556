"""Objects of one's own: through sweep, resume, other processes, files and figures."""

import contextlib
import copy
import shutil

import cloudpickle
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

import bbp as package
from bbp.engine import executors
from bbp.experiments import models, own
from bbp.files import dataset
from sims import instance, sampling
from sims.functions import activation_of, loss_of
from theory.checks import ParameterError
from theory.general import LOSSES, threshold
from theory.model.network import Network

MINE = '''
import jax.numpy as jnp
import numpy as np
from theory.general import Activation
from theory.model import Target

K = 10.0

def wiggle(x):
    return x**2 / (1 + x**2 / K)

level = Activation(  # a square that levels off, alike
    "levelling square",
    lambda x, xp: x**2 / (1 + x**2 / K),
    lambda x, xp: 2 * x / (1 + x**2 / K) ** 2,
    lambda x, xp: 2 / (1 + x**2 / K) ** 2 - 8 / K * x**2 / (1 + x**2 / K) ** 3,
    "even",
    infimum=0.0,
)

def forgiving(y, yhat, a):
    return a**2 * (jnp.sqrt(1 + ((yhat - y) / a) ** 2) - 1)

def squared(y, yhat):
    return (y - yhat) ** 2 / 2

three = 3
pair = [0.5, 1.5]

def power(n):
    return (1 + 99 * (np.arange(n) + 0.5) / n) ** -1.2

def ipr(vectors):
    """inverse participation ratio"""
    return jnp.sum(vectors**4, axis=0)

def apart(values):
    return values[1] - values[0]

def many(vectors):
    return vectors.T[:, :12]

def wrong(values):
    return values[99]

def gap(values):
    return 0.0

def near(teacher, student):
    return student + 2 * teacher

def product(u, v):
    return jnp.tanh(2 * u * v)

ended = Target("ended", lambda u, xp: xp.tanh(2 * u[..., 0] * u[..., 1]), -1.0, 1.0)
low = Target("low", lambda u, xp: u[..., 0] ** 2, 1.0)

rows = np.zeros((2, 12))
rows[0, :2], rows[1, :2] = (1, 1), (-1, 1)
'''
SWEEP = ["sweep", "--alpha-grid", "2,4", "--n", "12", "--samples", "4", "--a", "0.5", "--quiet"]
HOW = {"alpha": [2, 4], "n": 12, "samples": 4, "progress": False}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """A program that has seen no object yet."""
    monkeypatch.setattr(own, "_seen", {})


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


@pytest.fixture
def known_theory(monkeypatch):
    """Theory through a function of JAX takes seconds: tests of files and processes go without."""
    monkeypatch.setattr(models, "transition", lambda model: (2.5, "continuous"))
    monkeypatch.setattr(
        models, "theory_along", lambda model, alpha: dict.fromkeys(models.ALONG, np.ones(len(alpha)))
    )


@pytest.fixture(scope="module")
def process():
    with executors.Processes(1) as one:
        yield one


@pytest.fixture
def elsewhere(process, monkeypatch):
    """What is to run in processes runs in one, which has seen nothing of this: it is started in another folder."""
    monkeypatch.setattr(executors, "Processes", lambda *given: contextlib.nullcontext(process))


def forget():
    own._seen.clear()


def test_a_function_and_its_activation_are_one(mine):
    """Parity and infimum are found, and the Hessians are those of the closed forms."""
    names = "wiggle", "level"
    both = [Network(2, a=0.5, activation=own.read("activation", f"mine.py:{name}").entry) for name in names]
    assert [(each.student.parity, each.student.infimum) for each in both] == [("even", 0.0)] * 2
    found = [sampling.sample_point(each, 12, 2.0, range(3), 0).eigenvalues for each in both]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-9)
    assert own.read("loss", "mine.py:squared").entry.has_a is False


TARGET = "--p 2 --p-star 2 --activation tanh --loss squared --a 1 --bias=0.5,-0.5"
# Of each kind: its name in mine.py, what else is asked for, and a change of what it says.
KINDS = {
    "activation": ("level", "", ("K = 10.0", "K = 11.0")),  # what the function refers to
    "loss": ("forgiving", "", ("a**2 * (jnp", "2 * a**2 * (jnp")),
    "covariance": ("power", "--p 2", ("-1.2", "-1.3")),
    "target": ("product", TARGET, ("tanh(2 *", "tanh(3 *")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_known_by_its_name_and_its_source(bbp, refused, mine, known_theory, kind):
    """In the file, which is drawn; a comment changes nothing, another source is another run, and without it that is said."""
    name, options, change = KINDS[kind]
    out = mine.with_name("s.h5")
    words = [*SWEEP, *options.split(), f"--{kind}", f"mine.py:{name}", "--out", out]
    assert bbp(*words).code == 0
    found = dataset.open(out)
    assert found.attrs[kind] == f"mine.py:{name}" and len(found.attrs[f"{kind}_source"]) == 16
    assert not models.lacking(models.of(found))
    assert bbp("plot", out, "--out", out.with_suffix(".png")).code == 0
    text = own.read(kind, f"mine.py:{name}")
    assert cloudpickle.loads(cloudpickle.dumps(text)).entry == text.entry
    mine.write_text(MINE.replace("# a square that levels off, alike", "# A SQUARE"))
    assert bbp(*words).code == 0
    mine.write_text(MINE.replace(*change))
    for more in ([], ["--resume"]):
        refused(f"{kind}_source", *words, *more)
    forget()
    assert models.lacking(models.of(found))


def test_an_own_activation_from_shell_to_figure(bbp, refused, mine, same, known_theory, elsewhere):
    out = mine.with_name("s.h5")
    words = [*SWEEP, "--activation", "mine.py:level", "--out", out]
    assert bbp(*words).code == 0
    first = dataset.open(out)
    two = mine.with_name("two.h5")
    assert bbp(*words[:-1], two, "--processes", "2", "--block", "2").code == 0
    same(dataset.open(two), first)
    assert models.of(first).student.value(2.0, np) == pytest.approx(4 / 1.4)
    mine.write_text(MINE.replace("K = 10.0", "K = 11.0"))
    away = mine.with_name("away")
    shutil.move(mine, mine.with_name("moved.py"))
    forget()
    for program in (
        ["info", out],
        ["plot", out, "--out", f"{away}.png"],
        ["compare", out, "--repeats", "100"],
    ):
        said = bbp(*program)
        assert said.code == 0 and not said.err.startswith("bbp"), said.err
    spectrum = ["plot", out, "--spectrum", "4", "--out", f"{away}.svg"]
    refused("needs the activation 'mine.py:level': give --activation FILE.py:NAME", *spectrum)
    spectrum += ["--activation", "moved.py:level"]
    refused("no such file: 'mine.py'", *spectrum)  # moved.py has K = 11
    mine.with_name("moved.py").write_text(MINE)
    assert models.lacking(models.of(dataset.open(out)))
    assert bbp("compare", out, "--repeats", "100", "--activation", "moved.py:level").code == 0
    assert not models.lacking(models.of(dataset.open(out)))
    assert bbp(*spectrum).code == 0


@pytest.mark.slow
def test_a_phase_of_ones_own(bbp, mine):
    out = mine.with_name("p.h5")
    grid = ["--p", "1", "--a-grid", "1", "--at-a", "1", "--widths", "1", "--out", out]
    assert bbp("phase", *grid, "--activation", "mine.py:level").code == 0
    level = own.read("activation", "mine.py:level").entry
    assert dataset.open(out).alpha_bbp.item() == pytest.approx(
        threshold(Network(a=1.0, activation=level)).alpha
    )


@pytest.mark.parametrize("constant", [2.0, np.arange(2.0), jnp.arange(2.0), np.float32(2), [1, 2]])
def test_constants_are_part_of_the_source(constant):
    def made(held):
        def total(values):
            return values[0] * np.sum(held)

        return own.read("observable", total).entry.source

    assert made(constant) == made(copy.deepcopy(constant)) != made(np.asarray(constant) + 1)


def test_objects_from_python(mine, same, known_theory, elsewhere):
    def made(k):
        return Network(
            2,
            a=0.5,
            activation=activation_of("wig", lambda x: x**2 / (1 + x**2 / k), parity="even", infimum=0.0),
        )

    out, model = mine.with_name("s.h5"), made(10.0)
    found = package.sweep(model, out=out, processes=2, block=2, **HOW)
    same(found, package.sweep(made(10.0), **HOW))
    assert package.open(out).attrs["activation"] == "wig"
    with pytest.raises(ParameterError, match="activation_source"):
        package.sweep(made(11.0), out=out, **HOW)
    changed = package.sweep(made(11.0), **HOW)
    assert not np.allclose(changed.eigenvalues, found.eigenvalues)
    forget()
    assert models.lacking(models.of(package.open(out)))


def test_an_object_goes_where_its_file_is_not(mine):
    text = own.read("activation", "mine.py:wiggle")
    sent = cloudpickle.dumps(
        {"activation": text, "activation_source": text.entry.source, "p": 1, "p_star": 1, "a": 0.5}
    )
    mine.unlink()
    forget()
    assert models.build(cloudpickle.loads(sent)).student.value(2.0, np) == pytest.approx(4 / 1.4)


def test_losses_by_jax_are_those_of_the_closed_forms():
    y, yhat = np.linspace(0.1, 3, 7), np.linspace(-1, 2, 7)
    found = loss_of("own", lambda y, yhat, a: (y - yhat) ** 2 / (2 * (a + y)), positive=True)
    for part in ("value", "first", "second"):
        np.testing.assert_allclose(
            getattr(found, part)(y, yhat, 0.5, np),
            getattr(LOSSES["normalised"], part)(y, yhat, 0.5, np),
            atol=1e-14,
        )
    with pytest.raises(ParameterError, match="that JAX can differentiate"):
        loss_of("bad", lambda y, yhat, a: np.tanh(yhat))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("activation", "nowhere.py:f", "activation: no such file: 'nowhere.py'"),
        ("activation", "mine.py:nothing", "activation: 'mine.py' has no 'nothing'"),
        ("activation", "mine.py:three", "must be an Activation or a function of one number, got 3"),
        ("activation", "mine.py:", "activation must be FILE.py:NAME"),
        ("activation", "no.such.module:f", "activation: no module 'no.such.module'"),
        ("activation", "mine.py:forgiving", "must be a function of one number"),
        ("loss", "mine.py:level", "loss must be a Loss or a function of y, yhat and a"),
        ("target", "product", "target must be FILE.py:NAME or package.module:NAME"),
        ("target", "mine.py:level", "target must be a Target or a function of p_star numbers"),
        ("target", "mine.py:product", "it takes 2 numbers, and p_star is 1"),
        ("target", "mine.py:low", "infimum and supremum of mine.py:low must bound its values"),
        ("loss", "broken.py:f", "loss: 'broken.py' fails: ZeroDivisionError"),
        (
            "observable",
            "mine.py:wiggle",
            "may take values, vectors, teacher, student, by these names, got 'x'",
        ),
        (
            "observable",
            "mine.py:many",
            "must give a number, or one for each of 5 eigenpairs, got shape (5, 12)",
        ),
        ("observable", "mine.py:wrong", "observable wrong fails: IndexError"),
        ("observable", "mine.py:gap", "must have a name of its own: 'gap' is that of a variable of files"),
        ("observable", "mine.py:ipr,mine.py:ipr", "functions of different names, got 'ipr' twice"),
    ],
)
def test_what_is_no_such_object_is_refused_in_a_line(refused, mine, option, value, message):
    mine.with_name("broken.py").write_text("1 / 0")
    refused(message, *SWEEP, f"--{option}", value, "--out", mine.with_name("s.h5"))


def test_a_name_of_the_table_is_not_for_ones_own():
    with pytest.raises(ParameterError, match="must have a name of its own"):
        package.sweep(Network(activation=activation_of("tanh", lambda x: x**2, infimum=0.0)), **HOW)


def test_a_covariance_of_ones_own(bbp, mine, same, known_theory):
    """A function of N with the numbers of the same law in words; eigenvalues as they are."""
    runs = {"own": "mine.py:power", "words": "power:1.2", "levels": "mine.py:pair"}
    held = {}
    for name, covariance in runs.items():
        out = mine.with_name(f"{name}.h5")
        assert bbp(*SWEEP, "--p", "2", "--covariance", covariance, "--out", out).code == 0
        held[name] = dataset.open(out)
    np.testing.assert_allclose(held["own"].eigenvalues, held["words"].eigenvalues, rtol=1e-9, atol=1e-12)
    levels = held["levels"].attrs
    assert levels["covariance"] == "levels:0.5@0.5,1.5@0.5" and "covariance_source" not in levels
    same(package.sweep(**HOW, p=2, a=0.5, covariance=[0.5, 1.5]), held["levels"])


def test_a_target_of_ones_own(bbp, mine, same, known_theory):
    """A function of p* numbers gives the samples of the same Target as an object; a file without it opens."""
    held = {}
    for name in ("product", "ended"):
        out = mine.with_name(f"{name}.h5")
        words = [*SWEEP, *TARGET.split(), "--target", f"mine.py:{name}", "--out", out]
        assert bbp(*words).code == 0
        held[name] = dataset.open(out)
    assert held["product"].attrs["target_source"] != held["ended"].attrs["target_source"]
    np.testing.assert_allclose(held["product"].eigenvalues, held["ended"].eigenvalues, rtol=1e-9, atol=1e-12)
    target = own.read("target", "mine.py:ended").entry
    model = Network(2, 2, activation="tanh", loss="squared", bias=(0.5, -0.5), target=target)
    same(package.sweep(model, **{name: value for name, value in HOW.items() if name != "a"}), held["ended"])
    assert models.of(held["ended"]) == model
    sent = cloudpickle.loads(cloudpickle.dumps(own.read("target", "mine.py:product"))).entry
    u = np.array([[1.0, -0.5], [0.3, 0.2]])
    np.testing.assert_allclose(sent.value(u, np), np.tanh(2 * u[:, 0] * u[:, 1]), rtol=1e-12)
    forget()
    mine.unlink()
    with pytest.raises(ParameterError, match=r"needs the target 'mine\.py:product': give --target"):
        models.of(held["product"]).outputs(u)


def test_observables_of_ones_own(bbp, refused, mine, same, known_theory, elsewhere):
    """In the file with names and sources; of eigenpairs and of samples; from JAX and NumPy; the same elsewhere."""
    out, two = mine.with_name("s.h5"), mine.with_name("two.h5")
    words = [*SWEEP, "--p", "2", "--observable", "mine.py:ipr,mine.py:apart"]
    assert bbp(*words, "--out", out).code == 0
    found = dataset.open(out)
    assert found.ipr.dims == ("n", "alpha", "sample", "eigenpair") and found.apart.dims == (
        "n",
        "alpha",
        "sample",
    )
    assert (
        found.ipr.attrs["long_name"] == "inverse participation ratio"
        and found.ipr.attrs["observable"] == "mine.py:ipr"
    )
    pairs = sampling.lowest(instance.draw(Network(2, a=0.5), 12, 2.0, sample=1), 6)
    np.testing.assert_allclose(found.ipr[0, 0, 1], (pairs.vectors**4).sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.apart, found.eigenvalues[..., 1] - found.eigenvalues[..., 0], rtol=1e-12)
    assert bbp(*words, "--out", two, "--processes", "2", "--block", "2").code == 0
    same(dataset.open(two), found)
    again = package.sweep(p=2, a=0.5, observable=[ipr, apart], **HOW)
    for name in ("ipr", "apart"):
        np.testing.assert_allclose(again[name], found[name], rtol=1e-12)
    said = bbp("compare", out, "--repeats", "100", "--draws", "0", "--out", out.with_suffix(".png"))
    assert said.code == 0 and " ipr " in said.out
    artists = package.plot(package.open(out), Figure().add_subplot(), panel="c")
    assert artists
    mine.write_text(MINE.replace("vectors**4", "vectors**6"))
    for more in ([], ["--resume"]):
        refused("observable_source", *words, "--out", out, *more)
    assert bbp(*words, "--seed", "1", "--out", two, "--force").code == 0
    with pytest.raises(ParameterError, match="different sources are not joined: ipr"):
        package.join([out, two])


def ipr(vectors):
    """Inverse participation ratio."""
    return np.sum(vectors**4, axis=0)


def apart(values):
    return values[1] - values[0]


def test_a_sample_whose_observable_fails_costs_itself(known_theory):
    def picky(values):
        return 1.0 if values.shape == (6,) and values[0] == -1.0 else values[int(1e9)]

    found = package.sweep(p=2, observable=picky, **HOW)
    assert (found.status == 2).all() and "observable picky fails: IndexError" in found.reason.values.flat[0]
    assert np.isnan(found.picky).all()


def test_starts_of_ones_own(bbp, refused, mine, known_theory):
    """From a function and from an array; each coordinate of `start` is its name, and its source decides on resume."""
    out = mine.with_name("d.h5")
    how = {"p": 2, "a": 0.5, "n": 12, "samples": 2, "steps": 5, "records": 2, "eigenpairs": 0}
    words = ["descent", "--alpha-grid", "2", "--quiet", *(f"--{name}={value}" for name, value in how.items())]
    assert bbp(*words, "--start", "mine.py:near,mine.py:rows", "--out", out).code == 0
    found = dataset.open(out)
    assert found.start.values.tolist() == ["mine.py:near", "mine.py:rows"]
    first = found.overlap_matrix.isel(n=0, alpha=0, step=0)
    drawn = [instance.draw(Network(2, a=0.5), 12, 2.0, sample=sample) for sample in range(2)]
    for sample, each in enumerate(drawn):
        teacher, student = np.asarray(each.teacher), np.asarray(each.student)
        near = student + 2 * teacher
        near *= np.sqrt(12) / np.linalg.norm(near, axis=1, keepdims=True)
        rows = np.sqrt(12 / 2) * np.stack(
            [np.eye(2, 12)[0] + np.eye(2, 12)[1], np.eye(2, 12)[1] - np.eye(2, 12)[0]]
        )
        for name, rows_of in (("near", near), ("rows", rows)):
            np.testing.assert_allclose(
                first.sel(start=f"mine.py:{name}", sample=sample), rows_of @ teacher.T / 12, atol=1e-12
            )
    more = package.descent(**how, alpha=2, start=[[1.0] * 12, [0.0] * 11 + [1.0]], progress=False)
    assert more.start.values.tolist() == ["array"] and (more.status == 1).all()
    with pytest.raises(ParameterError, match=r"shape \(2, 12\), or \(2, 2, 12\), got \(1, 2, 12\)"):
        package.descent(**how, alpha=2, start=np.ones((1, 2, 12)), progress=False)
    mine.write_text(MINE.replace("2 * teacher", "3 * teacher"))
    refused("start_source", *words, "--start", "mine.py:near,mine.py:rows", "--out", out)
    words += ["--start", "mine.py:ipr", "--out", mine.with_name("e.h5")]
    refused("by these names, got 'vectors'", *words)
