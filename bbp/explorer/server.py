"""The server of `bbp explore`: who may reach it, and how it starts and stops."""

from __future__ import annotations

import errno
import gc
import logging
import socket
import webbrowser
from collections.abc import Sequence
from typing import Any

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.document import Document
from bokeh.server.server import Server
from bokeh.server.urls import per_app_patterns
from bokeh.server.views.ws import WSHandler
from bokeh.settings import settings
from jinja2 import Template
from tornado.web import HTTPError

from bbp.console import process
from bbp.explorer.answer import answer
from bbp.explorer.files import UPLOAD, Held
from bbp.explorer.session import Session
from bbp.explorer.state import State
from bbp.explorer.work import Work
from theory.checks import NotConverged, ParameterError

log = logging.getLogger("bbp")

PORT, TRIES = 5006, 20  # first port, and how many above it are tried where none was asked for
LOCAL = ("127.0.0.1", "localhost")
EVERYWHERE = ("0.0.0.0", "::", "")
IDLE = 15_000  # milliseconds that a page may be away before its session ends
REFUSAL = Template(
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>bbp explore</title>'
    '<body style="font-family:sans-serif;margin:3em"><h1>bbp explore</h1><p id="notice">{{ reason|e }}</p></body></html>'
)


def open_page(doc: Document, work: Work, origins: Sequence[str], held: list[Held]) -> None:
    """Make `doc` a page, or one sentence that says why not."""
    context: Any = doc.session_context
    request = context.request if context else None
    host = request.headers.get("Host", "") if request else ""
    if host and host not in origins:
        doc.template, host = REFUSAL, host[:80]
        words = f"This page was asked for as {host}. To allow that: bbp explore --origin {host}"
        doc.template_variables["reason"] = words
        return
    state, notice = State.of_query(request.arguments if request else {})
    try:
        Session(doc, work, state, notice, held)
    except (ParameterError, NotConverged) as error:  # values that are good one by one and not together
        Session(doc, work, State(), f"In the link: {error}.", held)


def origins_of(host: str, port: int, more: Sequence[str]) -> list[str]:
    """HOST:PORT by which pages may reach the server; those the user names besides. Raises ParameterError."""
    names = list(LOCAL)
    if host in EVERYWHERE:
        names += [socket.gethostname(), socket.getfqdn()]
    elif host not in LOCAL:
        names.append(host)
    for origin in more:
        name, _, number = origin.rpartition(":")
        if not name or not number.isdigit() or "/" in origin or "*" in origin:
            raise ParameterError(f"origin must be HOST:PORT, got {origin!r}")
    return [*dict.fromkeys(f"{name}:{port}" for name in names), *more]


def start(host: str, port: int | None, more: Sequence[str], held: list[Held]) -> tuple[Server, Work, int]:
    """A server that listens, the work of its pages, and its port. Raises ParameterError where no port is free."""
    settings.resources.set_value("server")  # never a network, whatever the environment says
    settings.log_level.set_value("error")
    work = Work()
    wanted = range(PORT, PORT + TRIES) if port is None else [port]
    for number in wanted:
        origins = origins_of(host, number, more)
        try:
            _try_port(host, number)
            server = _server(work, host, number, origins, held)
        except OSError as error:
            reason = error
            if error.errno != errno.EADDRINUSE:
                break
            continue
        server.start()
        return server, work, number
    where = f"port {port}" if port is not None else f"any port from {PORT} to {PORT + TRIES - 1}"
    raise ParameterError(f"{where} of {host!r} cannot be opened: {reason.strerror or reason}")


def _try_port(host: str, port: int) -> None:
    """OSError where the port cannot be opened: found out here, as Tornado leaves its socket open when it fails."""
    for family, kind, protocol, _, place in socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)


def _server(work: Work, host: str, port: int, origins: list[str], held: list[Held]) -> Server:
    application = Application(FunctionHandler(lambda doc: open_page(doc, work, origins, held)))
    more: dict[str, Any] = {
        "websocket_max_message_size": 2 * UPLOAD,
        "unused_session_lifetime_milliseconds": IDLE,
        "check_unused_sessions_milliseconds": 2_000,
        "xsrf_cookies": False,
    }
    return Server(
        {"/": application}, address=host, port=port, allow_websocket_origin=origins, index=None, **more
    )


class Prompt(WSHandler):
    """A websocket whose messages leave at once: each is several small packets, and TCP may hold the later ones back until the
    browser has acknowledged the first, 40 ms later. And to names that are allowed alone: where it was asked for under the name
    of the page, as when another's has come to mean this machine, Tornado takes them for one origin and asks no list."""

    async def prepare(self) -> None:
        """Refuse another name."""
        allowed: Any = self.application
        if self.request.host.lower() not in allowed.websocket_origins:
            raise HTTPError(403)
        await super().prepare()

    def open(self) -> None:
        """As Bokeh's own."""
        super().open()
        self.set_nodelay(True)


per_app_patterns[:] = [(each[0], Prompt) if each[1] is WSHandler else each for each in per_app_patterns]


def settle() -> None:
    """Load the theory, and have the collector of garbage pass over what is there by now, modules above all: to look through
    them takes it 80 ms, in the middle of some redraw. What pages bring is collected as ever."""
    answer(State())
    gc.collect()
    gc.freeze()


def serve(
    host: str, port: int | None, more: Sequence[str], held: list[Held], *, browser: bool, query: str
) -> None:
    """Serve until interrupted."""
    server, work, number = start(host, port, more, held)
    settle()
    shown = "localhost" if host in (*LOCAL, *EVERYWHERE) else host
    url = f"http://{shown}:{number}/" + (f"?{query}" if query else "")
    print(f"the explorer is at {url}   (Ctrl-C ends it)", flush=True)
    if host not in LOCAL:
        log.warning(
            "this address can be reached from other machines: whoever reaches it can use this one's processor"
        )
    server.io_loop.add_callback(work.prepare)
    if browser:
        webbrowser.open(url)
    try:
        with process.farewell("stopped"):
            server.io_loop.start()
    finally:
        work.close()
        server.stop()
