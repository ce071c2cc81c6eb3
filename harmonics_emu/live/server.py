"""A small web server for one run: on the loopback only, behind a random token, nothing but GET, nothing from elsewhere.

Other users of the machine can reach the port, and web pages that somebody has open can send requests to it. So every
address begins with the token, requests must be addressed to the loopback by name or number (a page whose name was
re-pointed here is not), and no answer may be framed, sniffed, cached or read across origins.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

import msgspec

from harmonics_emu.errors import HarmonicsError, UsageError
from harmonics_emu.live.metrics import CONTENT_TYPE, exposition
from harmonics_emu.live.snapshot import Snapshot

ADDRESS = "127.0.0.1"
LOOK_S = 0.4
"""A snapshot is used again for so long: more readers, or faster ones, cost the run nothing more."""
REQUEST_S = 5.0
MOST_CONNECTIONS = 32
SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class RunServer(ThreadingHTTPServer):
    """Serves what `look` shows under `url` until `shutdown`. UsageError where the port is taken.

    look: called from one thread at a time. port: 0 takes a free one.
    """

    daemon_threads = True
    allow_reuse_address = False
    request_queue_size = 64

    def __init__(self, look: Callable[[], Snapshot], port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self._look, self._looking = look, threading.Lock()
        self._shown: Snapshot | None = None
        self._looked_at = 0.0
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.pages = _pages()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise UsageError(
                f"can't listen on {ADDRESS} port {port}: {error.strerror}; choose another --port"
            ) from None
        number = self.server_address[1]
        self.hosts = {f"{name}:{number}" for name in (ADDRESS, "localhost")}
        self.url = f"http://{ADDRESS}:{number}/{self.token}/"

    def snapshot(self) -> Snapshot:
        with self._looking:
            now = time.monotonic()
            if self._shown is None or now - self._looked_at >= LOOK_S:
                self._shown, self._looked_at = self._look(), now
            return self._shown

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hang up on more connections than there is room for, rather than start a thread for each."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no matter of ours."""


class _Handler(BaseHTTPRequestHandler):
    server: RunServer
    timeout = REQUEST_S

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", b"This server answers to the loopback only.\n")
            return
        _, token, *rest = (self.path.partition("?")[0] + "/").split("/", 2)
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"There is nothing here. The whole address is needed.\n")
            return
        name = rest[0].removesuffix("/") if rest else ""
        if name == "" and self.path != f"/{self.server.token}/":
            self.send_response(HTTPStatus.PERMANENT_REDIRECT)
            self.send_header("Location", f"/{self.server.token}/")
            self._end(0)
        elif name in ("state.json", "metrics"):
            self._answer_from_the_run(name)
        elif name in self.server.pages:
            self._answer(HTTPStatus.OK, *self.server.pages[name])
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"There is no such page.\n")

    do_HEAD = do_GET

    def _answer_from_the_run(self, name: str) -> None:
        try:
            shown = self.server.snapshot()
        except HarmonicsError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", f"{error}\n".encode())
            return
        if name == "metrics":
            self._answer(HTTPStatus.OK, CONTENT_TYPE, exposition(shown).encode(errors="replace"))
        else:
            self._answer(HTTPStatus.OK, "application/json", msgspec.json.encode(shown))

    def version_string(self) -> str:
        return "harmonics-emu"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library finds wrong with a request, said without repeating any of it."""
        self.close_connection = True
        self._answer(HTTPStatus(code), "text/plain", f"{HTTPStatus(code).phrase}\n".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Addresses hold the token: they belong in no log."""

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self._end(len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _end(self, length: int) -> None:
        self.send_header("Content-Length", str(length))
        for name, value in SAFE.items():
            self.send_header(name, value)
        self.end_headers()


def _pages() -> dict[str, tuple[str, bytes]]:
    """Content type and bytes of each file of the page, by its name in the address."""
    live, report = files("harmonics_emu.live"), files("harmonics_emu.report")
    style = (report / "style.css").read_bytes() + (live / "live.css").read_bytes()
    return {
        "": ("text/html; charset=utf-8", (live / "live.html").read_bytes()),
        "live.js": ("text/javascript; charset=utf-8", (live / "live.js").read_bytes()),
        "style.css": ("text/css; charset=utf-8", style),
    }
