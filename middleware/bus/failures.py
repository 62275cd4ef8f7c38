"""Failures of a bus: errors of its connection with advice, and reports that are counted, handed on and logged."""

from __future__ import annotations

import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from distced.middleware.bus.logger import get_logger
from distced.middleware.model.errors import BusError
from distced.middleware.model.server_address import Address

_log = get_logger(__name__)

_ELSE: Final = "or name another with --server"


class Failure(NamedTuple):
    """Failure in a function or an operation, `what`, with topic and payload where it concerns a message."""

    error: Exception
    what: str
    topic: str | None = None
    payload: bytes | None = None


class FailureReports:
    """Reports of failures: counted, logged, handed to a hook; errors of the hook do not get out."""

    def __init__(self, client_id: str, hook: Callable[[Failure], object] | None) -> None:
        self._client_id = client_id
        self._hook = hook
        self._counts: Counter[str] = Counter()

    def failed(self, failure: Failure) -> None:
        """Report a failure. Of one place the 1st, 2nd, 4th, 8th ... are logged: a handler may fail at every message."""
        self._counts[failure.what] += 1
        count = self._counts[failure.what]
        if count & (count - 1) == 0:
            _log.error(
                "bus operation failed", what=failure.what, topic=failure.topic, count=count, client=self._client_id,
                exc_info=failure.error,
            )  # fmt: skip
        if self._hook is None:
            return
        try:
            self._hook(failure)
        except Exception as error:
            _log.error("failure hook failed", what=failure.what, client=self._client_id, exc_info=error)


# X509_V_ERR_CERT_NOT_YET_VALID, _CERT_HAS_EXPIRED, _HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH of OpenSSL's x509_vfy.h.
_DATES: Final = "have its server get another one (distced init FOLDER --renew SITE), or set the clock of this machine"
_HOST: Final = "name the server as its certificate does"
_OF_CERTIFICATE: Final = {9: _DATES, 10: _DATES, 62: _HOST, 64: _HOST}


def name_of(function: Callable[..., object]) -> str:
    """Name of a function, for people."""
    return getattr(function, "__qualname__", None) or type(function).__name__


def unreachable(address: Address, error: Exception) -> BusError:
    """Error of a connection that could not be opened, with advice."""
    if isinstance(error, BusError):
        # Of a file for the access to the server.
        return error
    if isinstance(error, ConnectionRefusedError):
        return BusError(f"nothing listens at {address}", advice=f"start one with `distced broker` {_ELSE}")
    if isinstance(error, socket.gaierror):
        return BusError(f"there is no host of this name: {address.host}", advice=f"check the name {_ELSE}")
    if isinstance(error, ssl.SSLCertVerificationError):
        # Its attributes are those that OpenSSL has told; one made in Python has none.
        text, code = getattr(error, "verify_message", str(error)), getattr(error, "verify_code", 0)
        return BusError(
            f"no encrypted connection to {address}",
            given=f"the certificate of the server: {text}",
            advice=_OF_CERTIFICATE.get(code, "name the certificates of its authority with --ca"),
        )
    if isinstance(error, ssl.SSLError):
        return BusError(
            f"no encrypted connection to {address}",
            given=getattr(error, "reason", None) or str(error),
            advice="check the certificate and the port; mqtt:// connects without encryption",
        )
    if isinstance(error, TimeoutError):
        return BusError(f"{address} does not answer", advice=f"check the network and firewalls, {_ELSE}")
    return BusError(f"no connection to {address}", given=str(error) or type(error).__name__, advice=f"check it {_ELSE}")


def refused(address: Address, reason: str, *, credentials: bool, user: str | None = None) -> BusError:
    """Error of a server that refuses the client, because of its credentials or not."""
    if not credentials:
        advice = "see the server's log"
    elif user is None:
        scheme = "mqtts" if address.tls else "mqtt"
        advice = (
            f"name user and password: {scheme}://USER@{address} and --password-file, or a configuration with --config"
        )
    else:
        advice = f"check the password of the user {user}, and whether the server knows this user"
    return BusError(f"the MQTT server at {address} refuses", given=reason, advice=advice)


def lost(address: Address, reason: str, client_id: str) -> BusError:
    """Error of a connection that was lost."""
    return BusError(
        f"the connection to {address} is lost",
        given=reason,
        advice=f"it is tried again by itself; where it keeps happening, look for another client named {client_id}",
    )
