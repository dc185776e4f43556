"""Who may reach the explorer, what it refuses, and what happens to long work: without a browser."""

import contextlib
import http.client
import json
import math
import socket
import threading
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.events import ConnectionLost, DocumentReady
from bokeh.server.callbacks import NextTickCallback

from bbp import explore
from bbp.explorer import server
from bbp.explorer.answer import number
from bbp.explorer.limits import DENSE_ORDER, KRYLOV_DATA, sampling_of
from bbp.explorer.phase_map import phase_map, phases
from bbp.explorer.state import State
from bbp.explorer.sweepfile import read_upload
from bbp.explorer.worker import Job, Worker
from tests.bbp.explorer.conftest import explorer
from tests.cases import cases
from theory import ParameterError, bbp_threshold


@pytest.fixture(scope="module")
def port():
    with explorer() as (url, _):
        yield urlsplit(url).port


def get(port, path="/", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")


def test_pages_of_other_origins_get_no_connection(port):
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    status, _ = get(port, "/ws", Origin="http://evil.example", **upgrade)
    assert status == 403
    status, _ = get(port, "/ws", Origin=f"http://localhost:{port + 1}", **upgrade)
    assert status == 403
    status, _ = get(port, "/ws", Origin="http://evil.example:80", Host="evil.example:80", **upgrade)
    assert status == 403
    status, _ = get(port, "/ws", Origin=f"http://localhost:{port}", Host=f"localhost:{port}", **upgrade)
    assert status == 101


def test_another_name_for_this_machine_gets_words_and_no_page(port):
    status, text = get(port, Host="evil.example:80")
    assert status == 200
    assert "This page was asked for as evil.example:80" in text
    assert "c-alpha" not in text


def test_only_this_machine_is_served(port):
    names = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for name in names - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError), socket.create_connection((name, port), timeout=2):
            pass


def test_words_from_a_link_are_escaped(port):
    _, text = get(port, "/?%3Cscript%3Ealert(1)%3C/script%3E=1&p=%22%3E%3Cimg%3E")
    assert "In the link" in text
    assert "<script>alert" not in text
    assert '"><img>' not in text


CLASHES = {
    "p=inf&overlap=0.5": "In the link: overlap must be 0, and gram not given, for p = inf.",
    "activation=tanh": "In the link: a must be at least 1 for a tanh teacher",
}  # fmt: skip


@pytest.mark.parametrize("query", CLASHES)
def test_a_link_whose_values_clash_is_a_page_that_says_so(port, query):
    status, text = get(port, f"/?{query}")
    assert status == 200 and CLASHES[query] in text and "c-alpha" in text


def test_a_page_that_cannot_be_made_takes_no_place(monkeypatch):
    def fails(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(server, "Session", fails)
    shared = server.Explorer([])
    for _ in range(2 * server.PAGES):
        with pytest.raises(ZeroDivisionError):
            shared.open(Document())
    assert not shared.pages


def test_there_are_only_so_many_pages(monkeypatch):
    class Context:
        request = None

    class Document:
        def __init__(self):
            self.session_context, self.template_variables = Context(), {}

        def on_session_destroyed(self, callback):
            self.destroyed = callback

    opened = []
    monkeypatch.setattr(server, "PAGES", 2)
    monkeypatch.setattr(server, "Session", lambda *arguments: opened.append(arguments))
    shared = server.Explorer([])
    pages = [Document() for _ in range(3)]
    for page in pages:
        shared.open(page)
    assert len(opened) == 2
    assert "2 pages are open" in pages[2].template_variables["reason"]
    pages[0].destroyed(None)
    shared.open(Document())
    assert len(opened) == 3


class Recorder:
    """Workers that only note who submits and who cancels."""

    def __init__(self):
        self.samples = self.curves = self.branches = self.files = self
        self.told = []

    def submit(self, job):
        self.told.append("submit")

    def cancel(self, owner):
        self.told.append("cancel")


def test_a_page_asks_for_long_work_while_it_is_open_and_leaves_it_when_it_moves_or_goes():
    doc, workers = Document(), Recorder()
    server.Session(doc, workers, State(), "", [])

    def timers():
        return [callback.callback for callback in doc.session_callbacks]

    def send(message):
        next(m for m in doc.select({"name": "ask"})).data = {"json": [json.dumps(message)]}

    assert not timers()
    doc.callbacks.trigger_event(DocumentReady())
    timers()[0]()
    assert workers.told == ["submit"]
    send({"do": "state", "serial": 1, "values": State(alpha=2.1).values()})
    timers()[0]()
    assert workers.told == ["submit", "cancel"]  # the sample; the curve is the one that is wanted
    send({"do": "state", "serial": 2, "values": State(n=500).values()})
    assert workers.told[2:] == ["cancel"] * 3
    timers()[0]()
    assert workers.told[5:] == ["submit"]
    deep = 100_000
    send_text = next(m for m in doc.select({"name": "ask"}))
    send_text.data = {"json": ["[" * deep + "]" * deep]}  # of no page of ours, and no end of this one
    doc.callbacks.trigger_event(ConnectionLost())
    assert set(workers.told[6:]) == {"cancel"}
    send({"do": "state", "serial": 3, "values": State(n=500).values()})
    timers()[0]()
    assert workers.told[-1] == "submit"


def test_the_diagram_of_another_p_star_follows_the_rest_of_an_answer():
    doc = Document()
    server.Session(doc, Recorder(), State(), "", [])

    def answered(serial, **values):
        message = {"do": "state", "serial": serial, "values": State(**values).values()}
        next(m for m in doc.select({"name": "ask"})).data = {"json": [json.dumps(message)]}
        return shown()

    def shown():
        return next(m for m in doc.select({"name": "answer"})).tags[0]

    first = answered(1, p_star=3)
    assert first["more"] is True
    assert "phases" not in first["sources"]
    assert first["words"]["alpha_bbp"].startswith(number(bbp_threshold(State(p_star=3).model).alpha))
    (later,) = [c.callback for c in doc.session_callbacks if isinstance(c, NextTickCallback)]
    later()
    (image,) = shown()["sources"]["phases"]["image"]
    assert shown()["serial"] == 1
    assert "more" not in shown()
    np.testing.assert_array_equal(image, phases(phase_map(3), State().alpha))
    second = answered(2, p_star=3, alpha=1.0)
    assert second["more"] is False
    np.testing.assert_array_equal(second["sources"]["phases"]["image"][0], phases(phase_map(3), 1.0))


@cases(
    ("words", "text"),
    [
        (["--port", "70000"], "at most 65535"),
        (["--port", "x"], "port must be a number"),
        (["--origin", "http://a"], "origin must be HOST:PORT"),
        (["--origin", "*:80"], "origin must be HOST:PORT"),
        (["nowhere.h5"], "nowhere.h5"),
        (["--force"], "--force is for --export"),
        (["--export", "x.html", "--port", "80"], "it takes no --port"),
        (["--export", "x.html", "--no-browser"], "it takes no --no-browser"),
        (["--export", "nowhere/x.html"], "there is no folder"),
        (["--host", "203.0.113.7"], "cannot be opened"),
    ],
)
def test_wrong_arguments_end_in_one_line(words, text, capsys):
    quiet = [] if "--export" in words else ["--no-browser"]
    assert explore.main([*quiet, *words]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert len(error.splitlines()) == 1


def test_a_port_in_use_is_named(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert explore.main(["--no-browser", "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot be opened: Address already in use" in capsys.readouterr().err


def test_a_missing_bokeh_gets_one_clear_line(monkeypatch, capsys):
    monkeypatch.setattr(explore.importlib.util, "find_spec", lambda name: None)
    assert explore.main(["--no-browser"]) == 1
    assert "pip install 'hessian-bbp[explore]'" in capsys.readouterr().err


def test_samples_are_bounded_in_size():
    assert sampling_of(State(p=1, n=DENSE_ORDER)) == (DENSE_ORDER, "dense")
    assert sampling_of(State(p=1, n=DENSE_ORDER + 1))[1] == "krylov"
    largest = int(math.sqrt(KRYLOV_DATA / 2))
    assert sampling_of(State(p=1, n=largest - 1))[1] == "krylov"
    for state in (
        State(p=1, n=largest + 2),
        State(p=512, n=400),
        State(p=64, n=30, p_star=8),
        State(p=100, n=20, alpha=200.0),
        State(p=math.inf),
        State(n=20, alpha=0.1),
        State(p_star=64, n=20),
    ):
        with pytest.raises(ParameterError):
            sampling_of(state)


@pytest.mark.parametrize(
    "content", ["!", "AAAA", "x" * 23 * 2**20], ids=["not base64", "not HDF5", "too large"]
)
def test_uploads_that_are_no_sweeps_are_refused_in_one_line(content):
    with pytest.raises(ParameterError) as error:
        list(read_upload({"name": "mine.h5", "content": content}))
    assert len(str(error.value)) < 300
    assert "/tmp" not in str(error.value)


class Heard:
    """Messages of a job, and a wait for its last."""

    def __init__(self):
        self.messages, self.done = [], threading.Event()

    def __call__(self, message):
        self.messages.append(message)
        if message["kind"] != "progress":
            self.done.set()

    def last(self):
        assert self.done.wait(60)
        return self.messages[-1]


@pytest.fixture
def worker():
    made = Worker("tests.bbp.explorer.work", "count", patience=0.2)
    yield made
    made.close()


def test_a_worker_counts_fails_and_is_cancelled(worker):
    first = Heard()
    worker.submit(Job("me", {"to": 3}, first))
    assert first.last() == {"kind": "result", "to": 3}
    assert [m["done"] for m in first.messages[:-1]] == [1, 2, 3]
    wrong = Heard()
    worker.submit(Job("me", {"to": -1}, wrong))
    assert wrong.last() == {"kind": "failed", "text": "to must be positive, got -1"}
    replaced, last, other = Heard(), Heard(), Heard()
    worker.submit(Job("me", {"to": 10**6, "pause": 0.01}, replaced))
    while not replaced.messages:
        time.sleep(0.01)
    worker.submit(Job("you", {"to": 1}, other))
    worker.submit(Job("me", {"to": 2}, last))
    assert replaced.last() == {"kind": "cancelled"}
    assert other.last()["to"] == 1
    assert last.last()["to"] == 2


def test_a_worker_that_does_not_answer_or_dies_is_replaced(worker):
    stuck = Heard()
    worker.submit(Job("me", {"to": 1, "pause": 600}, stuck))
    time.sleep(0.3)
    worker.cancel("me")
    assert stuck.last() == {"kind": "cancelled"}
    dead = Heard()
    worker.submit(Job("me", {"to": 0}, dead))
    assert "has ended" in dead.last()["text"]
    well = Heard()
    worker.submit(Job("me", {"to": 1}, well))
    assert well.last()["to"] == 1
