"""Address of an MQTT server, parsed from a URL.

The query of the URL names files for the access to it (`middleware.bus.access`), which are not read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from distced.middleware.model.errors import BusError

PORTS: Final = {"mqtt": 1883, "mqtts": 8883}  # by the scheme of a URL, plain and with TLS
FILES: Final = ("config", "ca", "cert", "key", "password-file")
"""Parameters of a URL: files for the access to the server."""

_ALLOWED: Final = "mqtt://host:port or mqtts://user:password@host:port"


@dataclass(frozen=True)
class Address:
    """Address of an MQTT server; without a user name where the server lets everybody in.

    `files`: for the access to it, by parameter of the URL.
    """

    host: str
    port: int
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    files: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        """URL with user, password and files."""
        login = "" if self.username is None else quote(self.username, safe="")
        login += "" if self.password is None else f":{quote(self.password, safe='')}"
        query = urlencode(self.files, quote_via=quote, safe="/")
        return f"mqtt{'s' * self.tls}://{login}{'@' * bool(login)}{self}{'?' * bool(query)}{query}"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(url: str) -> Address:
    """Address in a URL: `mqtt://host:port`, `mqtts://user:password@host`; a bare `host:port` is `mqtt`."""
    try:
        parts = urlsplit(url if "://" in url else f"mqtt://{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BusError("not the URL of an MQTT server", given=_hide(url), allowed=_ALLOWED, advice=str(error)) from None
    if parts.scheme not in PORTS or not host or parts.path.strip("/") or parts.fragment or port == 0:
        raise BusError("not the URL of an MQTT server", given=_hide(url), allowed=_ALLOWED)
    try:
        files = tuple(parse_qsl(parts.query, strict_parsing=bool(parts.query), max_num_fields=len(FILES)))
    except ValueError as error:
        raise BusError("not the URL of an MQTT server", given=_hide(url), allowed=_ALLOWED, advice=str(error)) from None
    names = [name for name, _ in files]
    if len(set(names)) < len(names) or not set(names) <= set(FILES):
        raise BusError(
            "not a parameter of an MQTT server's URL",
            given="&".join(names),
            allowed=f"{', '.join(FILES)}; each once, and a file",
            where=_hide(url),
        )
    return Address(
        host,
        port or PORTS[parts.scheme],
        parts.scheme == "mqtts",
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
        files,
    )


def server_name(server: str | Address) -> str:
    """URL of a server in one form: with its port, without user, password and files."""
    address = parse_address(server) if isinstance(server, str) else server
    return f"mqtt{'s' * address.tls}://{address}"


_LOGIN: Final = re.compile(r"(\bmqtts?://|^)[^\s/?#]*@(?=[^\s/?#]+)", re.IGNORECASE)
_BARE: Final = re.compile(r"[^\s/?#@:]*:[^\s/?#]*@[^\s/?#]+")


def without_logins(text: str) -> str:
    """Text without user and password in the URLs of servers, for logs: entries of anybody may have some. The text may
    be the address of a server without a scheme, too."""
    if "@" not in text or not ("://" in text or _BARE.fullmatch(text)):
        return text
    return _LOGIN.sub(r"\1…@", text)


def _hide(url: str) -> str:
    """URL without a password, which is not for logs."""
    head, at, tail = url.rpartition("@")
    return f"…@{tail}" if at and head else url
