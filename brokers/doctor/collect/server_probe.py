"""Probe of an MQTT server by connections of its own: name, network, TLS, login, and what the server grants.

The bus was rejected for it: it tries again until it has a connection, and keeps to itself what a server has granted.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
import uuid
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from distced.brokers.doctor.checks.server import SESSION, ConnectionProblem, ServerFacts
from distced.middleware.bus.access import Login, authority_of, login, tls_context
from distced.middleware.bus.failures import unreachable
from distced.middleware.model.server_address import Address, parse_address, server_name
from distced.middleware.model.timestamps import SECOND

WITHIN: Final = 5.0
"""Time for each step of a connection, s."""

_VERSIONS: Final = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}
_LOGIN: Final = ("Bad user name or password", "Not authorized", "Bad authentication method")
_NO_LOGIN: Final = Login(None, None)


def probe(url: str, within: float = WITHIN) -> ServerFacts:
    """Facts about a server; what is wrong is a fact, too. Raises `BusError` for unusable files of the access."""
    address = parse_address(url)
    known, context = login(address), tls_context(address)
    has_certificate = context is not None and any(name in ("cert", "config") for name, _ in address.files)
    facts = ServerFacts(server_name(address), tls=address.tls, user=known.user is not None)
    try:
        facts = _reached(facts, address, context, within)
    except (OSError, ValueError) as error:
        return replace(facts, problem=_no_network(address, error))
    if facts.problem is not None:
        return facts
    facts = _greeted(facts, address, known, context, within)
    if facts.problem is None and not facts.user and not has_certificate:
        return replace(facts, anonymous=True)
    if facts.problem is not None and facts.problem.kind not in ("login",):
        return facts
    without = None if context is None else ssl.create_default_context(cafile=authority_of(address) or None)
    stranger = _greeted(ServerFacts(facts.name), address, _NO_LOGIN, without, within)
    if stranger.problem is not None and stranger.problem.kind == "unreachable":
        return facts
    return replace(facts, anonymous=stranger.problem is None)


def refuses(url: str, topic: str, within: float = WITHIN) -> bool:
    """Whether the server refuses a message of this user on a topic, which MQTT 5 alone says; an empty one is sent."""
    address = parse_address(url)
    return _Greeting(address, login(address), tls_context(address), "5", within).refuses(topic)


def _reached(facts: ServerFacts, address: Address, context: ssl.SSLContext | None, within: float) -> ServerFacts:
    """Facts of a connection of the network, and its encryption. Raises `OSError`."""
    with socket.create_connection((address.host, address.port), within) as stream:
        with suppress(ValueError):
            peer = ipaddress.ip_address(str(stream.getpeername()[0]).partition("%")[0])
            facts = replace(facts, loopback=peer.is_loopback)
        if context is None:
            return facts
        try:
            with context.wrap_socket(stream, server_hostname=address.host) as encrypted:
                shown: dict[str, Any] = encrypted.getpeercert() or {}
        except ssl.SSLCertVerificationError as error:
            problem = ConnectionProblem("certificate", error.verify_message, "", error.verify_code)
            return replace(facts, problem=problem)
        except ConnectionResetError:
            return replace(facts, problem=_no_tls(address))
    until = shown.get("notAfter")
    return facts if until is None else replace(facts, valid_until=int(ssl.cert_time_to_seconds(until)) * SECOND)


def _no_network(address: Address, error: Exception) -> ConnectionProblem:
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if reason in ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"):
            return _no_tls(address)
        return ConnectionProblem("encryption", f"no encrypted connection: {reason}", "see the log of the server")
    if isinstance(error, ValueError):
        return ConnectionProblem("unreachable", f"not the name of a host: {address.host}", "check the name")
    found = unreachable(address, error)
    text = found.problem if found.given is None else f"{found.problem}: {found.given}"
    return ConnectionProblem("unreachable", text, found.advice or "")


def _no_tls(address: Address) -> ConnectionProblem:
    text = f"what listens at {address} does not speak TLS"
    return ConnectionProblem("encryption", text, "check the port, 8883 as a rule; mqtt:// is without TLS")


def _greeted(
    facts: ServerFacts, address: Address, known: Login, context: ssl.SSLContext | None, within: float
) -> ServerFacts:
    """Facts with the answer to a greeting of MQTT 5, or of 3.1.1 where the server does not know that."""
    found = _Greeting(address, known, context, "5", within).facts(facts)
    if found.problem is None or found.problem.kind != "protocol":
        return found
    older = _Greeting(address, known, context, "3.1.1", within).facts(facts)
    # A server that has no answer to both has another reason.
    return found if older.problem is not None and older.problem.kind == "protocol" else older


class _Greeting:
    """One connection of a client of its own, with its answer."""

    def __init__(
        self, address: Address, known: Login, context: ssl.SSLContext | None, protocol: str, within: float
    ) -> None:
        self._address, self._known, self._protocol, self._within = address, known, protocol, within
        self._over = threading.Event()
        self._refusal = ""
        self._accepted = False
        self._granted: dict[str, int] = {}
        self._answered = 0
        version = _VERSIONS[protocol]
        self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"distced-doctor-{uuid.uuid4().hex[:12]}",
            clean_session=None if protocol == "5" else True,
            protocol=version,
            reconnect_on_failure=False,
        )
        self._client.connect_timeout = within
        if context is not None:
            self._client.tls_set_context(context)
        if known.user is not None:
            self._client.username_pw_set(known.user, known.password)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = lambda *_: self._over.set()

    def facts(self, before: ServerFacts) -> ServerFacts:
        """Facts with the answer of the server."""
        properties = None
        if self._protocol == "5":
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = SESSION
        try:
            self._begin = time.monotonic_ns()
            self._client.connect(self._address.host, self._address.port, properties=properties)
            self._client.loop_start()
            came = self._over.wait(self._within)
        except (OSError, ValueError) as error:
            return replace(before, problem=_no_network(self._address, error))
        finally:
            self._leave()
        if self._accepted:
            session = self._granted.get("SessionExpiryInterval", SESSION) if self._protocol == "5" else None
            return replace(
                before, protocol=self._protocol, granted=self._granted, session=session, answered=self._answered
            )
        return replace(before, problem=self._problem(came))

    def refuses(self, topic: str) -> bool:
        """Whether the server refuses a message; False without a connection."""
        came, codes = threading.Event(), []

        def published(client: Client, userdata: Any, number: int, reason: Any, properties: Any) -> None:
            codes.append(reason.is_failure)
            came.set()

        self._client.on_publish = published
        try:
            self._begin = time.monotonic_ns()
            self._client.connect(self._address.host, self._address.port)
            self._client.loop_start()
            if self._over.wait(self._within) and self._accepted:
                self._client.publish(topic, b"", qos=1)
                came.wait(self._within)
        except (OSError, ValueError):
            return False
        finally:
            self._leave()
        return any(codes)

    def _leave(self) -> None:
        if self._accepted and self._protocol == "5":
            # No session is left behind.
            properties = Properties(PacketTypes.DISCONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = 0
            self._client.disconnect(properties=properties)
        else:
            self._client.disconnect()
        self._client.loop_stop()

    def _problem(self, came: bool) -> ConnectionProblem:
        if not came:
            # As the embedded amqtt, to a version that it does not know.
            text = f"{self._address} accepts connections and does not answer MQTT {self._protocol}"
            return ConnectionProblem("protocol", text, "check the port, and the log of the server")
        if self._refusal in _LOGIN:
            return self._refused_login()
        if self._refusal and self._refusal != "Unsupported protocol version":
            remedy = "see the log of the server"
            return ConnectionProblem("login", f"the server refuses: {self._refusal}", remedy)
        text = f"the server hangs up on a client of MQTT {self._protocol}"
        if self._address.tls:
            text += ", perhaps for want of a certificate of the client"
        return ConnectionProblem("protocol", text, "see its log; --cert and --key name a certificate of the client")

    def _refused_login(self) -> ConnectionProblem:
        user = self._known.user
        if user is None:
            remedy = "name user and password: --config, or a user in the URL with --password-file"
            return ConnectionProblem("login", "it wants a login, and none was given", remedy)
        remedy = f"check the password of {user}; mosquitto reads users again after kill -HUP"
        return ConnectionProblem("login", f"it refuses the user {user}, or the password", remedy)

    def _on_connect(self, client: Client, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._answered = time.monotonic_ns() - self._begin
        if reason.is_failure:
            self._refusal = reason.getName()
        else:
            self._accepted = True
            values = {} if properties is None else vars(properties)
            self._granted = {name: value for name, value in values.items() if type(value) is int and name[0].isupper()}
        self._over.set()
