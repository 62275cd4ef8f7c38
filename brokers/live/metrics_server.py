"""HTTP server of metrics and health: `GET /metrics` for Prometheus, `GET /healthz` for supervisors.

One thread takes one request after the other, each within a few seconds, of a few kilobytes, and answers from the last
readings (`brokers.live.metrics_board`): a client that sends nonsense, nothing or without end delays other scrapes, and
nothing else. The server of prometheus_client was rejected: it has a thread for each connection, and no limit of time.
There is no login and no encryption; so it listens on loopback unless another address is given.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from socketserver import TCPServer
from typing import Any, Final, NamedTuple, Self

from distced.brokers.live.metrics_board import Collector, MetricsBoard, check_installed
from distced.middleware.model.errors import DistcedError

WITHIN: Final = 2.0
"""Time for a client to send its request, and again to take the answer, s."""

LONGEST: Final = 8 * 1024
"""Bytes of a request at most."""

LOOPBACK: Final = "127.0.0.1"

TEXT: Final = "text/plain; charset=utf-8"


class MetricsAddress(NamedTuple):
    """Address of a server of metrics; port 0 for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_metrics_address(text: str) -> MetricsAddress:
    """Address of `[HOST:]PORT`, on loopback where no host is given. Raises `DistcedError` for any other text."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    bracketed = host.startswith("[") and host.endswith("]")
    usable = bool(bare) and bare.isprintable() and " " not in bare and (":" not in bare or bracketed)
    if not port.isascii() or not port.isdecimal() or int(port) > 65_535 or (colon and not usable):
        allowed = "PORT, 0 to 65535, or HOST:PORT, [::1]:9464 for one of IPv6"
        raise DistcedError("not an address for metrics", given=text, allowed=allowed)
    return MetricsAddress(bare if colon else LOOPBACK, int(port))


def with_free_port(address: str) -> str:
    """The address with a free port in place of its own; empty where it is empty."""
    return str(parse_metrics_address(address)._replace(port=0)) if address else ""


class MetricsServer:
    """Server of the metrics of a board, listening from its making on; a context manager, or `start` and `stop`.

    Attributes:
        address: where it listens.
    """

    def __init__(self, address: MetricsAddress, board: MetricsBoard) -> None:
        """Listen at an address. Raises `DistcedError` where that is not possible, or the library is not installed."""
        check_installed()
        self.board = board
        try:
            self._server = _Server(address, partial(_Request, board=board))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                advice = "end what listens there, or choose another port, 0 for a free one, with --metrics"
                raise DistcedError(
                    "the port for metrics is in use", given=str(address.port), where=address.host, advice=advice
                ) from None
            advice = f"choose an address of this machine and a port that this user may use: {error}"
            raise DistcedError("no listening for metrics there", given=str(address), advice=advice) from None
        self.address = MetricsAddress(address.host, self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    @property
    def url(self) -> str:
        """URL of the metrics."""
        return f"http://{self.address}/metrics"

    def start(self) -> Self:
        """Answer requests."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End, behind the present request."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Server(TCPServer):
    allow_reuse_address = True
    request_queue_size = 16

    def __init__(self, address: MetricsAddress, handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), handler)

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:
            # Without a pause it would be called again at once while no more files can be opened.
            time.sleep(0.1)
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that is gone, or slow."""


class _Request(BaseHTTPRequestHandler):
    server_version, sys_version = "distced", ""
    timeout = WITHIN

    def __init__(self, *given: Any, board: MetricsBoard) -> None:
        self._board = board
        super().__init__(*given)

    def handle(self) -> None:
        head = _head(self.connection)
        if head:
            self.rfile = BytesIO(head)
            self.connection.settimeout(WITHIN)
            self.handle_one_request()

    def do_GET(self) -> None:
        """Answer a request."""
        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(HTTPStatus.OK, *exposition(self._board, self.headers.get("Accept", "")))
            case "/healthz":
                problems = self._board.problems(time.monotonic())
                status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
                self._answer(status, "".join(f"{each}\n" for each in problems or ["ok"]).encode(), TEXT)
            case _:
                self._answer(HTTPStatus.NOT_FOUND, b"there are /metrics and /healthz\n", TEXT)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: anybody could fill the log."""

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # All within one limit of time.
        self.wfile.write(body)


def exposition(board: MetricsBoard, accept: str = "") -> tuple[bytes, str]:
    """Metrics of the participants and of this process, and their content type, as a client accepts it."""
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(Collector(board))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


def _head(stream: socket.socket) -> bytes:
    """Request up to its empty line; empty where it is too long or too slow."""
    deadline, head = time.monotonic() + WITHIN, b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        left = deadline - time.monotonic()
        if left <= 0 or len(head) > LONGEST:
            return b""
        stream.settimeout(left)
        piece = stream.recv(LONGEST)
        if not piece:
            return b""
        head += piece
    return head
