"""Who may reach the explorer, what it refuses, and what happens to long work: without a browser."""

import asyncio
import contextlib
import http.client
import json
import math
import socket
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.events import ConnectionLost, DocumentReady
from bokeh.server.callbacks import NextTickCallback, TimeoutCallback

from bbp import explore
from bbp.console.messages import RunError
from bbp.explorer import curves, server
from bbp.explorer.answer import number
from bbp.explorer.files import read_upload
from bbp.explorer.samples import DENSE_ORDER, KRYLOV_DATA, sampling_of
from bbp.explorer.state import State
from bbp.explorer.work import Helper
from tests.bbp.explorer.apart import count
from theory import ParameterError, bbp_threshold
from theory.general.spectrum import solve


@pytest.fixture
def port(address):
    return urlsplit(address).port


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


def test_only_this_machine_is_served(port):
    names = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for name in names - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError), socket.create_connection((name, port), timeout=2):
            pass


LINKS = {
    "%3Cscript%3Ealert(1)%3C/script%3E=1&p=%22%3E%3Cimg%3E": "In the link",
    "p=inf&overlap=0.5": "In the link: overlap must be 0, and gram not given, for p = inf.",
    "activation=tanh": "In the link: a must be at least 1 for a tanh teacher",
}


@pytest.mark.parametrize("query", LINKS)
def test_a_bad_link_is_a_page_that_says_so_and_what_it_says_is_text(port, query):
    status, text = get(port, f"/?{query}")
    assert status == 200 and LINKS[query] in text and "c-alpha" in text
    assert "<script>alert" not in text and '"><img>' not in text


def test_under_another_name_there_are_words_and_no_page(port):
    status, text = get(port, Host="evil.example:80")
    assert status == 200 and "This page was asked for as evil.example:80" in text and "c-alpha" not in text


class Recorder:
    """Work that is begun and never done; notes what is begun and what is left."""

    def __init__(self):
        self.samples = self.curves = self.files = self
        self.told, self.seen = [], {(1, 0.0): curves.phase_map(1)}

    async def do(self, function, *arguments):
        self.told.append(f"begin {function.__name__}")
        try:
            await asyncio.Event().wait()
        finally:
            self.told.append(f"leave {function.__name__}")

    async def diagram(self, p_star, noise):
        self.seen[p_star, noise] = curves.phase_map(p_star, noise)
        return self.seen[p_star, noise]


class Open:
    """A page without a browser."""

    def __init__(self, work=None, state=None):
        self.doc, self.work = Document(), work or Recorder()
        self.session = server.Session(self.doc, self.work, state or State(), "", [])

    def find(self, name):
        return next(m for m in self.doc.select({"name": name}))

    def send(self, text):
        self.find("ask").data = {"json": [text]}

    def move(self, serial, **values):
        self.send(json.dumps({"do": "state", "serial": serial, "values": State(**values).values()}))
        return self.find("answer").tags[0]

    async def later(self, kind=TimeoutCallback):
        """What the page does when it is time, and at its next turn; what it has asked for since."""
        await asyncio.sleep(0)
        for callback in [c for c in self.doc.session_callbacks if isinstance(c, kind)]:
            self.doc.callbacks.remove_session_callback(callback)
            callback.callback()
        for _ in range(3):
            await asyncio.sleep(0)
        told, self.work.told = self.work.told, []
        return told


def test_a_page_asks_for_long_work_while_it_is_open_and_leaves_it_when_it_moves_or_goes():
    async def opened():
        page = Open()
        assert await page.later() == []
        page.doc.callbacks.trigger_event(DocumentReady())
        assert await page.later() == ["begin law"]
        page.send(json.dumps({"do": "draw"}))
        assert await page.later() == ["begin predicted"]
        page.move(1, alpha=2.1)
        assert await page.later() == ["leave predicted"]  # the curve is the one that is wanted
        page.move(2, n=500)
        assert await page.later() == ["leave law", "begin law"]
        deep = 100_000
        page.send("[" * deep + "]" * deep)  # of no page of ours, and no end of this one
        page.doc.callbacks.trigger_event(ConnectionLost())
        assert await page.later() == ["leave law"]
        page.move(3, n=500)
        assert await page.later() == ["begin law"]

    asyncio.run(opened())


def test_the_diagram_of_another_p_star_follows_the_rest_of_an_answer():
    async def opened():
        page = Open()
        first = page.move(1, p_star=3)
        assert first["stale"] is True
        assert "phases" not in first["sources"]
        assert first["words"]["alpha_bbp"].startswith(number(bbp_threshold(State(p_star=3).model).alpha))
        await page.later()
        await page.later(NextTickCallback)
        shown = page.find("answer").tags[0]
        assert shown["stale"] is False and "serial" not in shown
        np.testing.assert_array_equal(
            shown["sources"]["phases"]["image"][0], curves.phases(curves.phase_map(3), State().alpha)
        )
        second = page.move(2, p_star=3, alpha=1.0)
        assert second["stale"] is False
        np.testing.assert_array_equal(
            second["sources"]["phases"]["image"][0], curves.phases(curves.phase_map(3), 1.0)
        )

    asyncio.run(opened())


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
        read_upload("mine.h5", content)
    assert len(str(error.value)) < 300
    assert "/tmp" not in str(error.value)


class Here(Recorder):
    """Work that is done here and at once."""

    async def do(self, function, *arguments):
        return function(*arguments)


@pytest.mark.parametrize(
    ("state", "arrivals"),
    [
        (State(noise=0.3), [40]),
        pytest.param(State(2, 1, 2.0, 5.0, activation="tanh"), list(range(1, 13)), marks=pytest.mark.slow),
    ],
)
def test_curves_of_a_model_with_options_arrive_those_of_a_slow_one_point_by_point(state, arrivals):
    async def opened():
        page, seen, told = Open(Here(), state), [], []
        page.doc.callbacks.trigger_event(DocumentReady())
        answer, status = page.find("answer"), page.find("status")
        answer.on_change("tags", lambda name, old, new: seen.append(new[0]))
        status.on_change("tags", lambda name, old, new: told.append(new[0].get("finite-words")))
        await page.later()
        await page.later(NextTickCallback)
        return seen, told

    seen, told = asyncio.run(opened())
    packed = [dict(shown["packed"]) for shown in seen]
    lengths = [dict(each["branch"])["alpha"] for each in packed if "branch" in each]
    assert sorted(lengths) == arrivals and any(
        "density" in each for each in packed
    )  # turns have no order here
    assert "edge and outliers: 2%" in told and any(words.startswith("Finite-N curves") for words in told)
    if len(arrivals) > 1:
        exact = solve(state.model, state.alpha)
        (words,) = [shown["words"]["edge"] for shown in seen if "edge" in shown["words"]]
        assert float(words.split()[0].replace("−", "-")) == pytest.approx(
            exact.edge, abs=5 * exact.edge_error
        )


def test_a_helper_does_one_call_at_a_time_is_left_when_nobody_waits_and_replaced_where_it_dies():
    async def used(helper):
        assert await helper.do(count, 3) == 3
        with pytest.raises(ParameterError, match="to must be positive, got -1"):
            await helper.do(count, -1)
        first, waiting, last = (asyncio.create_task(helper.do(count, to, 0.1)) for to in (1, 2, 3))
        await asyncio.sleep(0.05)
        waiting.cancel()
        assert [await first, await last] == [1, 3] and waiting.cancelled()
        stuck = asyncio.create_task(helper.do(count, 1, 600))
        await asyncio.sleep(0.3)
        began = time.monotonic()
        stuck.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stuck
        assert time.monotonic() - began < 60 and await helper.do(count, 2) == 2
        with pytest.raises(RunError, match="has ended"):
            await helper.do(count, 0)
        assert await helper.do(count, 3) == 3

    helper = Helper(patience=0.2)
    try:
        asyncio.run(used(helper))
    finally:
        helper.close()


def test_a_page_says_that_its_server_has_stopped(page, server):
    """The last: whoever needs a server after this one starts another."""
    edge = page.text("edge")
    server[1].kill()
    page.says("notice", "has stopped", 15)
    assert not page.element("c-alpha").is_enabled() and page.text("edge") == edge
    time.sleep(0.5)
    assert all("WebSocket" in text or "Could not open websocket" in text for text in page.complaints())
    page.blank()
