"""Address of an MQTT server, parsed from a URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from distced.middleware.model.errors import BusError

PORTS: Final = {"mqtt": 1883, "mqtts": 8883}  # by the scheme of a URL, plain and with TLS
_ALLOWED: Final = "mqtt://host:port or mqtts://user:password@host:port"


@dataclass(frozen=True)
class Address:
    """Address of an MQTT server; without a user name where the server lets everybody in."""

    host: str
    port: int
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(url: str) -> Address:
    """Address in a URL: `mqtt://host:port`, `mqtts://user:password@host`; a bare `host:port` is `mqtt`."""
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


def _hide(url: str) -> str:
    """URL without a password, which is not for logs."""
    head, at, tail = url.rpartition("@")
    return f"…@{tail}" if at and head else url
