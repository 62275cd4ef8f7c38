"""MQTT server for first steps and tests, as a process with a log file: mosquitto where installed, else embedded amqtt.

Loopback only, without access control: not for production. amqtt handles some 2,000 messages a second, and MQTT 3.1.1
only.

A free port is reserved by binding a socket that never listens; the server binds the same port with SO_REUSEADDR.
Releasing the port first was rejected: another process may take it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import ipaddress
import os
import shutil
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias

from distced.brokers.live.watchdog import remove_folder, watched_folder
from distced.middleware.model.errors import BusError

Kind: TypeAlias = Literal["auto", "mosquitto", "amqtt"]

MOSQUITTO_PATHS: Final = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")
"""Folders of mosquitto besides the PATH, which often lacks the folders for administrators."""

_CONFIGURATION: Final = """\
# Written by distced for one run.
listener {port} {host}
allow_anonymous {anonymous}
persistence false
log_dest stderr
log_type error
log_type warning
log_type notice
# Without it, small frames wait for the acknowledgement of the one before.
set_tcp_nodelay true
# The stock limits, 1000 and 20, lose messages as soon as a subscriber falls behind.
max_queued_messages 1000000
max_inflight_messages 1000
# Those of clients that send larger ones end.
max_packet_size 67108864
"""

_START_SECONDS: Final = 20.0
_STOP_SECONDS: Final = 5.0


class Server:
    """Running MQTT server, mosquitto or amqtt; a context manager, or call `stop`.

    It ends with the interpreter, and where that is killed (`brokers.live.watchdog`).
    """

    def __init__(self, kind: str, host: str, port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.kind = kind
        self.host = host
        self.port = port
        self._process = process
        self._log = folder / "log"
        self._end = weakref.finalize(self, _end, process, folder)

    @property
    def url(self) -> str:
        """URL for a `Bus`."""
        return f"mqtt://{_in_url(self.host)}:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the server still runs."""
        return self._process.poll() is None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds for the server to end by itself; True where it has."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        return not self.alive

    def log(self, lines: int = 10) -> str:
        """Last lines of the server's log; empty once it is stopped."""
        with contextlib.suppress(OSError):
            return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def stop(self) -> None:
        """End the server and remove its folder. Idempotent."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<{self.kind} at {self.url}{'' if self.alive else ', ended'}>"


def start_server(
    kind: Kind = "auto", host: str = "127.0.0.1", port: int = 0, *, settings: Sequence[str] = ()
) -> Server:
    """Start an MQTT server and wait until it accepts connections.

    Args:
        kind: "mosquitto", "amqtt", or "auto" for mosquitto where installed and amqtt otherwise.
        host: a loopback address.
        port: 0 for a free one.
        settings: further lines for mosquitto's configuration.

    Raises:
        BusError: start failed; with the last lines of the log.
    """
    program = find_mosquitto()
    if kind not in ("auto", "mosquitto", "amqtt"):
        raise BusError("not a kind of MQTT server", given=kind, allowed="auto, mosquitto, amqtt")
    if kind == "auto":
        kind = "mosquitto" if program else "amqtt"
    if kind == "mosquitto" and program is None:
        advice = "install the package mosquitto, or take the embedded server, kind amqtt"
        raise BusError("mosquitto is not installed", given=f"PATH and {', '.join(MOSQUITTO_PATHS)}", advice=advice)
    if kind == "amqtt" and importlib.util.find_spec("amqtt") is None:
        advice = "install mosquitto, or amqtt with pip install 'distced[broker]'"
        raise BusError("no MQTT server to start", advice=advice)
    if kind == "amqtt" and settings:
        raise BusError("settings for a server that takes none", given=settings[0], allowed="kind mosquitto")
    _check_loopback(host)
    with _reserve(host, port) as reserved:
        port = reserved.getsockname()[1]
        folder = watched_folder("distced-server-")
        if program is not None and kind == "mosquitto":
            command = [program, "-c", str(_configure(folder, host, port, settings))]
        else:
            command = [sys.executable, "-m", "distced.brokers.live.amqtt_process", host, str(port)]
        with (folder / "log").open("wb") as log:
            # In a session of its own, as an interrupt from the keyboard is for the application, which stops the server.
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        server = Server(kind, host, port, process, folder)
        _await_listening(server)
    return server


def find_mosquitto() -> str | None:
    """Path of mosquitto, or None where it is not installed."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path=os.pathsep.join(MOSQUITTO_PATHS))


def _check_loopback(host: str) -> None:
    with contextlib.suppress(ValueError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return
    raise BusError(
        "a server without access control listens on loopback only", given=host, allowed="127.0.0.1, ::1, localhost",
        advice="for other machines run an MQTT server of your own, with passwords, and name it with --server",
    )  # fmt: skip


def _reserve(host: str, port: int) -> socket.socket:
    """Socket bound to the port, or to a free one, that does not listen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reserved = socket.socket(family, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reserved.bind((host, port))
    except (OSError, OverflowError) as error:
        reserved.close()
        raise BusError(
            f"no server can listen at {_in_url(host)}:{port}", given=str(error),
            advice="name another port, 0 for a free one, or use what listens there already",
        ) from None  # fmt: skip
    return reserved


def _configure(folder: Path, host: str, port: int, settings: Sequence[str]) -> Path:
    path = folder / "mosquitto.conf"
    anonymous = "false" if any(line.startswith("password_file") for line in settings) else "true"
    path.write_text(_CONFIGURATION.format(host=host, port=port, anonymous=anonymous) + "\n".join([*settings, ""]))
    return path


def _await_listening(server: Server) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while server.alive and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((server.host, server.port), timeout=1):
            if server.alive:
                return
        time.sleep(0.01)
    problem = "does not answer" if server.alive else f"ended with code {server._process.returncode}"
    log = server.log()
    server.stop()
    raise BusError(
        f"the MQTT server {problem}", given=server.kind, where=f"{_in_url(server.host)}:{server.port}",
        advice=f"its log ends with:\n{log or '(nothing)'}",
    )  # fmt: skip


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    remove_folder(folder)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
