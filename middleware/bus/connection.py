"""Connection to an MQTT server, from its opening to its end, over paho; after that a new one is made.

Reconnection by paho, with state that survives the connection, was rejected: the bus republishes messages of QoS 1 under
way, with the same result for the receiver, and nothing depends on paho's memory.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import pbkdf2_hmac
from typing import Any, Final, Literal, TypeAlias

from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY, ConnectFlags, DisconnectFlags
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from distced.middleware.bus.access import login
from distced.middleware.bus.failures import lost, refused
from distced.middleware.bus.messages import HEADER_MAX, PACKET_READ, Message
from distced.middleware.bus.paho_client import BufferedSocket, Client, Deliver, Sent
from distced.middleware.model.errors import BusError
from distced.middleware.model.server_address import Address

Protocol: TypeAlias = Literal["5", "3.1.1"]
"""A version of MQTT."""

Wanted: TypeAlias = Literal["auto", "5", "3.1.1"]
"""The version asked for; "auto" takes 5 where the server knows it."""

_VERSIONS: Final = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}

KEEPALIVE: Final = 30
"""Default seconds of silence before a peer checks the other."""

_ITERATIONS: Final = 20_000

_UNSUPPORTED: Final = "Unsupported protocol version"
_CREDENTIALS: Final = ("Bad user name or password", "Not authorized", "Bad authentication method")
_FINAL: Final = (*_CREDENTIALS, "Client identifier not valid", "Banned")


@dataclass(frozen=True)
class Settings:
    """Settings of a bus's connections; see `BaseBus`."""

    address: Address
    client_id: str
    keepalive: int
    session_expiry: int
    will: Message | None
    will_delay: int
    connect_timeout: float
    max_inflight: int
    tls: ssl.SSLContext | None


@dataclass(frozen=True)
class Accepted:
    """Grants of the server.

    Attributes:
        session_present: whether a session of this client existed.
        window: most messages of QoS 1 under way.
        packet_limit: bytes of the longest packet it takes.
        max_qos: greatest QoS it takes.
        identifiers: whether it marks messages with the subscriptions they match.
    """

    session_present: bool
    window: int
    packet_limit: int
    max_qos: int
    identifiers: bool


class Connection:
    """Connection on an open socket; belongs to the loop of the bus, and never waits.

    Attributes:
        accepted: grants of the server; None until it has accepted.
        ended: reason of the end; None before.
        unsupported: whether the server probably does not support this version of MQTT.
        hopeless: whether another attempt is useless until something is changed.
        on_close: called once, right before the socket is closed.
    """

    def __init__(
        self,
        settings: Settings,
        protocol: Protocol,
        *,
        deliver: Deliver,
        subscribed: Callable[[int, str | None], None],
        not_accepted: Callable[[Message, ReasonCode], None],
    ) -> None:
        self.protocol = protocol
        self.accepted: Accepted | None = None
        self.ended: BusError | None = None
        self.unsupported = False
        self.hopeless = False
        self.on_close: Callable[[], None] = _nothing
        self._settings = settings
        self._refusal: str | None = None
        self._user: str | None = None
        # Messages handed to paho: at QoS 0 until the operating system has them, at QoS 1 until they are acknowledged.
        self._unsent: deque[tuple[Message, Sent]] = deque()
        self._unacknowledged: deque[tuple[Message, Sent]] = deque()
        self._not_accepted = not_accepted
        self._client = Client(
            _VERSIONS[protocol],
            settings.client_id,
            clean=settings.session_expiry == 0,
            deliver=deliver,
            not_accepted=self._on_not_accepted,
            subscribed=subscribed,
        )
        self._configure(self._client)

    # Opening and closing

    def open(self, stream: socket.socket) -> None:
        """Take an open socket, which does not block, and prepare the greeting for `write`.

        Raises `BusError` where the password cannot be read.
        """
        known = login(self._settings.address)
        self._user = known.user
        if known.user is not None:
            self._client.username_pw_set(known.user, known.password)
            self._client.identify(unguessable(self._settings.client_id, known.user, known.password))
        self._client.stream = BufferedSocket(stream)
        address, version5 = self._settings.address, self.protocol == "5"
        properties = None
        given = {}
        if version5 and self._settings.session_expiry:
            given["SessionExpiryInterval"] = self._settings.session_expiry
        if version5 and not _is_here(address.host):
            # Others leave larger packets out (MQTT 5, section 3.1.2.11.4). Servers started here have a limit of their
            # own, and the embedded one, which knows no properties, would take this one for the length of a name and
            # wait for it.
            given["MaximumPacketSize"] = PACKET_READ
        if given:
            properties = _properties(PacketTypes.CONNECT, **given)
        self._client.connect(
            address.host,
            address.port,
            self._settings.keepalive,
            clean_start=self._settings.session_expiry == 0 if version5 else MQTT_CLEAN_START_FIRST_ONLY,
            properties=properties,
        )

    def fileno(self) -> int:
        stream = self._client.socket()
        return -1 if stream is None else stream.fileno()

    def close(self) -> None:
        """Say farewell, as far as needs no waiting, so that the will is not published; and close."""
        if self.ended is None and self.accepted is not None:
            self._client.disconnect()
            self._client.loop_write()
        self.abort(BusError("closed", where=str(self._settings.address)))

    def abort(self, reason: BusError) -> None:
        """Close without a farewell."""
        stream = self._client.socket()
        if stream is not None:
            self._closing()
            stream.close()
        self.ended = self.ended or reason

    def _closing(self) -> None:
        # Once: paho closes its socket again when it is collected, on any thread, and another may have the number then.
        on_close, self.on_close = self.on_close, _nothing
        on_close()

    # Reading and writing

    @property
    def has_unread(self) -> bool:
        """Whether `read` has something to do that no selector knows of."""
        stream = self._client.stream
        return self.ended is None and stream is not None and stream.waiting

    @property
    def wants_write(self) -> bool:
        """Whether something waits for room on the network."""
        return self._client.want_write()

    @property
    def can_send(self) -> bool:
        """Whether messages can be handed over: the server has accepted and the network has room."""
        return self.accepted is not None and self.ended is None and not self._client.want_write()

    def has_room_for(self, message: Message) -> bool:
        """Whether the message may be sent now; one of QoS 1 waits while the window is full."""
        return message.qos == 0 or (self.accepted is not None and len(self._unacknowledged) < self.accepted.window)

    def read(self, packets: int) -> None:
        """Handle up to `packets` packets, or what there is."""
        read, stream = self._client.read_packet, self._client.stream
        take = self._client.take_published
        for _ in range(packets):
            if not take():
                read()
            if self.ended is not None or stream is None or not stream.waiting:
                break

    def write(self) -> None:
        """Write as much as the network takes."""
        self._client.loop_write()

    def keep_alive(self) -> None:
        """Ask the server for a sign of life, and give up without one; to be called once a second."""
        self._client.loop_misc()

    # Messages

    def is_too_large(self, message: Message) -> bool:
        """Whether the server would hang up on this message."""
        # Every character of the topic may take four bytes.
        size = len(message.payload) + 4 * len(message.topic) + len(message.properties) + HEADER_MAX
        return self.accepted is not None and size > self.accepted.packet_limit

    def send(self, message: Message) -> None:
        """Hand a message over, to be written by `write`; it is settled later."""
        accepted = self.accepted
        qos = message.qos if accepted is None else min(message.qos, accepted.max_qos)
        sent = self._client.send(message.topic, message.payload, qos, message.retain, message.properties)
        (self._unacknowledged if qos else self._unsent).append((message, sent))

    def settled(self) -> int:
        """Number of messages that are through since the last call."""
        count = 0
        for queue in (self._unsent, self._unacknowledged):
            while queue and queue[0][1].through:
                queue.popleft()
                count += 1
        return count

    def unsettled(self) -> list[Message]:
        """Messages handed over and not through, in order, to be sent again on the next connection."""
        return [
            message for queue in (self._unacknowledged, self._unsent) for message, sent in queue if not sent.through
        ]

    def acknowledge(self, number: int) -> None:
        """Acknowledge a message of QoS 1."""
        self._client.ack(number, 1)

    @property
    def marks_copies(self) -> bool:
        """Whether the server marks messages with the subscriptions they match."""
        return self.accepted is not None and self.accepted.identifiers

    def subscribe(self, topic_filter: str, qos: int, identifier: int | None, *, retained: bool = True) -> int | None:
        """Request matching messages; the number of the answer, None where the connection is over."""
        identifier = identifier if self.marks_copies else None
        return self._client.request(topic_filter, qos, identifier, retained=retained)

    def unsubscribe(self, topic_filter: str) -> None:
        """Request no more matching messages."""
        self._client.unsubscribe(topic_filter)

    # What paho reports

    def _configure(self, client: PahoClient) -> None:
        settings = self._settings
        if settings.will is not None:
            will, delay = settings.will, None
            if self.protocol == "5" and settings.will_delay:
                delay = _properties(PacketTypes.WILLMESSAGE, WillDelayInterval=settings.will_delay)
            client.will_set(will.topic, will.payload, will.qos, will.retain, delay)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_socket_close = lambda *_: self._closing()
        # That the loop does the writing keeps paho from writing each packet by itself; want_write tells when.
        client.on_socket_register_write = lambda *_: None

    def _on_connect(
        self, client: PahoClient, userdata: Any, flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if reason.is_failure:
            self._refusal = reason.getName()
            self.unsupported = self._refusal == _UNSUPPORTED
            self.hopeless = self._refusal in _FINAL
            return
        granted = {} if properties is None else vars(properties)
        self.accepted = Accepted(
            session_present=flags.session_present,
            window=min(self._settings.max_inflight, granted.get("ReceiveMaximum", 65_535)),
            packet_limit=min(granted.get("MaximumPacketSize", PACKET_READ), PACKET_READ),
            max_qos=granted.get("MaximumQoS", 1),
            identifiers=self.protocol == "5" and granted.get("SubscriptionIdentifierAvailable", 1) == 1,
        )

    def _on_disconnect(
        self,
        client: PahoClient,
        userdata: Any,
        flags: DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        address = self._settings.address
        if self._refusal is not None:
            named = self._refusal in _CREDENTIALS
            self.ended = refused(address, self._refusal, credentials=named, user=self._user)
        elif self.accepted is None:
            # A server that does not know this version may as well hang up without an answer.
            self.unsupported = True
            self.ended = refused(address, f"it hung up on a client of MQTT {self.protocol}", credentials=False)
        elif flags.is_disconnect_packet_from_server:
            self.ended = lost(address, f"the server says: {reason.getName()}", self._settings.client_id)
        else:
            said = reason.getName()
            name = "closed by the server or the network" if said == "Unspecified error" else said
            self.ended = lost(address, name, self._settings.client_id)

    def _on_not_accepted(self, number: int, reason: ReasonCode) -> None:
        message = next((message for message, sent in self._unacknowledged if sent.number == number), None)
        if message is not None:
            self._not_accepted(message, reason)


def next_protocol(wanted: Wanted, tried: Connection) -> Protocol:
    """Version to try next: MQTT 5 first, the other one where the server is likely not to know the one tried."""
    if wanted != "auto":
        return wanted
    if tried.unsupported:
        return "3.1.1" if tried.protocol == "5" else "5"
    # After a loss another server may answer than before, so begin with 5 again.
    return tried.protocol if tried.accepted is None else "5"


@lru_cache(maxsize=1_000)
def unguessable(client_id: str, user: str, password: str | None) -> str:
    """Client id that others cannot make up.

    Whoever connects with the id of another ends the connection of that one, at most servers whoever it is. The id is
    the same for each connection, so that sessions go on, until the password is another. Servers log it, so that it
    costs as much to try passwords by it as by the hashes of a server.
    """
    if not password or not client_id:
        return client_id
    digest = pbkdf2_hmac("sha256", password.encode(), f"{user} {client_id}".encode(), _ITERATIONS, 8)
    return f"{client_id}-{digest.hex()}"


def _is_here(host: str) -> bool:
    """Whether a host is this machine, by its loopback interface."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _nothing() -> None: ...


def _properties(packet: int, **values: int) -> Properties:
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(properties, name, value)
    return properties
