"""Where an MQTT server is, read from a URL, and what to say when it cannot be reached."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from distced.middleware.model.errors import BusError

PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
"""The schemes of a server's URL, plain and with TLS, and their usual ports."""

_ALLOWED: Final = "mqtt://host:port or mqtts://user:password@host:port"
_ELSE: Final = "or name another with --server"


@dataclass(frozen=True)
class Address:
    """An MQTT server.

    Attributes:
        host, port: where it listens.
        tls: whether the connection is encrypted.
        username, password: as whom to connect; None where the server lets everybody in.
    """

    host: str
    port: int
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(url: str) -> Address:
    """The server a URL names: `mqtt://host:port`, `mqtts://user:password@host`; a bare `host:port` is `mqtt`."""
    try:
        parts = urlsplit(url if "://" in url else f"mqtt://{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BusError("not the URL of an MQTT server", given=_hide(url), allowed=_ALLOWED, advice=str(error)) from None
    if parts.scheme not in PORTS or not host or parts.path.strip("/") or parts.query or parts.fragment or port == 0:
        raise BusError("not the URL of an MQTT server", given=_hide(url), allowed=_ALLOWED)
    return Address(
        host,
        port or PORTS[parts.scheme],
        parts.scheme == "mqtts",
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
    )


def unreachable(address: Address, error: Exception) -> BusError:
    """What a failure to open a connection means, and what to do about it."""
    if isinstance(error, ConnectionRefusedError):
        return BusError(f"nothing listens at {address}", advice=f"start one with `distced broker` {_ELSE}")
    if isinstance(error, socket.gaierror):
        return BusError(f"there is no host of this name: {address.host}", advice=f"check the name {_ELSE}")
    if isinstance(error, ssl.SSLError):
        return BusError(
            f"no encrypted connection to {address}",
            given=getattr(error, "reason", None) or str(error),
            advice="check the certificate and the port; mqtt:// connects without encryption",
        )
    if isinstance(error, TimeoutError):
        return BusError(f"{address} does not answer", advice=f"check the network and firewalls, {_ELSE}")
    return BusError(f"no connection to {address}", given=str(error) or type(error).__name__, advice=f"check it {_ELSE}")


def refused(address: Address, reason: str, *, credentials: bool) -> BusError:
    """The server answered, and does not let us in."""
    advice = f"name user and password: mqtt://user:password@{address}" if credentials else "see the server's log"
    return BusError(f"the MQTT server at {address} refuses", given=reason, advice=advice)


def lost(address: Address, reason: str, client_id: str) -> BusError:
    """The connection stood, and is gone."""
    return BusError(
        f"the connection to {address} is lost",
        given=reason,
        advice=f"it is tried again by itself; where it keeps happening, look for another client named {client_id}",
    )


def _hide(url: str) -> str:
    """The URL without a password, which is not for logs."""
    head, at, tail = url.rpartition("@")
    return f"…@{tail}" if at and head else url
