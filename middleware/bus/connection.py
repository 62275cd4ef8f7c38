"""Connection to an MQTT server, from its opening to its end, over paho; after that a new one is made.

Reconnection by paho, with state that survives the connection, was rejected: the bus republishes messages of QoS 1 under
way, with the same result for the receiver, and nothing depends on paho's memory.

Three seams of paho are used, all checked on import. `_create_socket`: paho blocks to open a socket and reads a packet
with three system calls; here the loop opens the socket, and one call fills the memory that paho reads from with
hundreds of packets. `_handle_publish`: paho makes an object with a lock and a condition for each message, and under
MQTT 5 a table of all properties; here topic and properties stay bytes, which lead to the handlers through one
dictionary. `_packet_read`: messages that were read wholly are taken in one step. Together a message costs 2 us instead
of 12, or instead of 24 under MQTT 5. A client of our own was rejected: all else, from keep-alive to reason codes, is
paho's.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import paho.mqtt.client as paho
from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY, ConnectFlags, DisconnectFlags, MQTTMessageInfo
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from distced.middleware.bus.failures import lost, refused
from distced.middleware.bus.messages import HEADER_MAX, PACKET_MAX, Message
from distced.middleware.model.errors import BusError
from distced.middleware.model.server_address import Address

if TYPE_CHECKING:
    from paho.mqtt.client import SocketLike


Protocol: TypeAlias = Literal["5", "3.1.1"]
"""A version of MQTT."""

Wanted: TypeAlias = Literal["auto", "5", "3.1.1"]
"""The version asked for; "auto" takes 5 where the server knows it."""

_VERSIONS: Final = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}
_SUBSCRIPTION_IDENTIFIER: Final = 0x0B
"""Its number among the properties (MQTT 5, section 2.2.2.2)."""

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
        paused: whether reading is suspended, so that the server holds messages back.
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
        self.paused = False
        self.on_close: Callable[[], None] = _nothing
        self._settings = settings
        self._refusal: str | None = None
        # Messages handed to paho: at QoS 0 until the operating system has them, at QoS 1 until they are acknowledged.
        self._unsent: deque[tuple[Message, MQTTMessageInfo]] = deque()
        self._unacknowledged: deque[tuple[Message, MQTTMessageInfo]] = deque()
        self._subscribed = subscribed
        self._not_accepted = not_accepted
        self._client = Client(
            _VERSIONS[protocol],
            settings.client_id,
            clean=settings.session_expiry == 0,
            deliver=deliver,
            not_accepted=self._on_not_accepted,
        )
        self._configure(self._client)

    # Opening and closing

    def open(self, stream: socket.socket) -> None:
        """Take an open socket, which does not block, and prepare the greeting for `write`."""
        self._client.stream = BufferedSocket(stream)
        address, version5 = self._settings.address, self.protocol == "5"
        properties = None
        if version5 and self._settings.session_expiry:
            properties = _properties(PacketTypes.CONNECT, SessionExpiryInterval=self._settings.session_expiry)
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
        return self.ended is None and not self.paused and stream is not None and stream.waiting

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
            if self.ended is not None or self.paused or stream is None or not stream.waiting:
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
        size = len(message.payload) + 4 * len(message.topic) + HEADER_MAX
        return self.accepted is not None and size > self.accepted.packet_limit

    def send(self, message: Message) -> None:
        """Hand a message over, to be written by `write`; it is settled later."""
        accepted = self.accepted
        qos = message.qos if accepted is None else min(message.qos, accepted.max_qos)
        info = self._client.publish(message.topic, message.payload, qos, message.retain)
        (self._unacknowledged if qos else self._unsent).append((message, info))

    def settled(self) -> int:
        """Number of messages that are through since the last call."""
        count = 0
        for queue in (self._unsent, self._unacknowledged):
            while queue and _is_through(queue[0][1]):
                queue.popleft()
                count += 1
        return count

    def unsettled(self) -> list[Message]:
        """Messages handed over and not through, in order, to be sent again on the next connection."""
        return [
            message
            for queue in (self._unacknowledged, self._unsent)
            for message, info in queue
            if not _is_through(info)
        ]

    def acknowledge(self, number: int) -> None:
        """Acknowledge a message of QoS 1."""
        self._client.ack(number, 1)

    @property
    def marks_copies(self) -> bool:
        """Whether the server marks messages with the subscriptions they match."""
        return self.accepted is not None and self.accepted.identifiers

    def subscribe(self, topic_filter: str, qos: int, identifier: int | None) -> int | None:
        """Request matching messages; the number of the answer, None where the connection is over."""
        if self.protocol == "3.1.1":
            return self._client.subscribe(topic_filter, qos)[1]
        marked = None
        if identifier is not None and self.marks_copies:
            marked = _properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=identifier)
        return self._client.subscribe(topic_filter, options=SubscribeOptions(qos=qos), properties=marked)[1]

    def unsubscribe(self, topic_filter: str) -> None:
        """Request no more matching messages."""
        self._client.unsubscribe(topic_filter)

    # What paho reports

    def _configure(self, client: PahoClient) -> None:
        settings = self._settings
        if settings.address.username is not None:
            client.username_pw_set(settings.address.username, settings.address.password)
        if settings.will is not None:
            will, delay = settings.will, None
            if self.protocol == "5" and settings.will_delay:
                delay = _properties(PacketTypes.WILLMESSAGE, WillDelayInterval=settings.will_delay)
            client.will_set(will.topic, will.payload, will.qos, will.retain, delay)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
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
            packet_limit=granted.get("MaximumPacketSize", PACKET_MAX),
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
            self.ended = refused(address, self._refusal, credentials=self._refusal in _CREDENTIALS)
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

    def _on_subscribe(
        self, client: PahoClient, userdata: Any, mid: int, reasons: list[ReasonCode], properties: Properties | None
    ) -> None:
        self._subscribed(mid, next((reason.getName() for reason in reasons if reason.is_failure), None))

    def _on_not_accepted(self, number: int, reason: ReasonCode) -> None:
        message = next((message for message, info in self._unacknowledged if info.mid == number), None)
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


def _nothing() -> None: ...


def _is_through(info: MQTTMessageInfo) -> bool:
    return info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS and info.is_published()


def _properties(packet: int, **values: int) -> Properties:
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(properties, name, value)
    return properties


_PUBLISH: Final = 0x30  # type of packet (MQTT 5, section 2.1.2)
_PIECE: Final = 65_536  # bytes read from the socket at once
_SEAMS: Final = (
    *("_create_socket", "_packet_read", "_loop_rc_handle", "_handle_publish", "_do_on_publish"),
    *("_packet_write", "_call_socket_register_write"),
)

if missing := [name for name in _SEAMS if not hasattr(paho.Client, name)]:
    raise ImportError(f"paho-mqtt has no {', '.join(missing)} any more: use the version distced was released with")


class BufferedSocket:
    """Socket read and written in large pieces, whatever the small ones that paho asks for and hands over."""

    def __init__(self, raw: SocketLike) -> None:
        self.raw = raw
        self._encrypted = isinstance(raw, ssl.SSLSocket)
        self._piece = b""
        self._given = 0
        # Handed over and not written, at most `_PIECE` bytes.
        self._unsent = bytearray()

    @property
    def waiting(self) -> bool:
        """Whether bytes were read that paho has not asked for yet; a selector does not know of them."""
        return self._given < len(self._piece) or (self._encrypted and self.raw.pending() > 0)  # type: ignore[attr-defined]

    def recv(self, buffer_size: int) -> bytes:
        start, piece = self._given, self._piece
        end = start + buffer_size
        if start >= len(piece):
            piece = self._piece = self.raw.recv(_PIECE)
            start, end = 0, buffer_size
        # Perhaps beyond the end, which reads the same: nothing is left.
        self._given = end
        return piece[start:end]

    def take_publish(self) -> tuple[int, bytes] | None:
        """Take a PUBLISH packet that was read wholly: its flags, and what follows its length; None for another."""
        piece, start = self._piece, self._given
        size = len(piece)
        if start >= size or piece[start] & 0xF0 != _PUBLISH:
            return None
        length = shift = 0
        position = start + 1
        while position < size and shift <= 21:
            byte = piece[position]
            position += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                end = position + length
                if end > size:
                    return None
                self._given = end
                return piece[start] & 0x0F, piece[position:end]
            shift += 7
        return None

    @property
    def unsent(self) -> bool:
        """Whether `flush` has something to write."""
        return bool(self._unsent)

    def send(self, buffer: bytes | bytearray) -> int:
        if len(self._unsent) + len(buffer) > _PIECE:
            self.flush()
            if len(buffer) > _PIECE:
                return self.raw.send(buffer)
        self._unsent += buffer
        return len(buffer)

    def flush(self) -> None:
        """Write everything handed over; `BlockingIOError`, or as TLS has it, where the network does not take all."""
        while self._unsent:
            del self._unsent[: self.raw.send(self._unsent)]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.flush()
        self.raw.close()

    def fileno(self) -> int:
        return self.raw.fileno()

    def setblocking(self, flag: bool) -> None:
        self.raw.setblocking(flag)


Deliver: TypeAlias = Callable[[bytes, bytes, bool, int], None]
"""Takes a raw message: topic and properties, each behind its length; payload, retained, number of the packet."""

NotAccepted: TypeAlias = "Callable[[int, ReasonCode], None]"
"""Takes the number of a published message the server did not accept, and why."""


class Client(paho.Client):
    """paho client for one connection, whose messages go straight to `deliver`.

    `deliver` acknowledges QoS 1 by `ack(number, 1)`; `stream`, the network, is to be set before `connect`.
    """

    def __init__(
        self, protocol: MQTTProtocolVersion, client_id: str, *, clean: bool, deliver: Deliver, not_accepted: NotAccepted
    ) -> None:
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            # Under MQTT 5 this is said when connecting.
            clean_session=None if protocol == MQTTProtocolVersion.MQTTv5 else clean,
            protocol=protocol,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self.stream: BufferedSocket | None = None
        self._deliver = deliver
        self._not_accepted = not_accepted
        self._with_properties = protocol == MQTTProtocolVersion.MQTTv5
        # The outbox bounds messages; paho's own queue would only hide them.
        self.max_inflight_messages = 0

    def _create_socket(self) -> SocketLike:
        if self.stream is None:
            raise OSError("the socket is not open")
        return self.stream

    def want_write(self) -> bool:
        return super().want_write() or (self.stream is not None and self.stream.unsent)

    def _packet_write(self) -> MQTTErrorCode:
        code = super()._packet_write()
        try:
            if self.stream is not None:
                self.stream.flush()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._call_socket_register_write()
            return MQTTErrorCode.MQTT_ERR_AGAIN
        except OSError:
            return MQTTErrorCode.MQTT_ERR_CONN_LOST
        return code

    def take_published(self) -> bool:
        """Deliver a message that was read wholly, in one step instead of paho's for each of its parts; False for none.

        What paho notes of the connection it notes with each piece that is read.
        """
        found = None if self.stream is None or self._in_packet["command"] else self.stream.take_publish()
        if found is None:
            return False
        self._published(*found)
        return True

    def read_packet(self) -> None:
        """Read a packet in paho's steps, or the part of it that is there; `loop_read` may read many."""
        if self.socket() is not None and (code := self._packet_read()) > 0:
            self._loop_rc_handle(code)

    def _handle_publish(self) -> MQTTErrorCode:
        self._published(self._in_packet["command"], bytes(self._in_packet["packet"]))
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _published(self, flags: int, packet: bytes) -> None:
        end = 2 + (packet[0] << 8 | packet[1])
        topic, number = packet[:end], 0
        if flags & 0x06:
            number = packet[end] << 8 | packet[end + 1]
            end += 2
        start = end
        if self._with_properties:
            length = packet[end]
            end += 1 + length if length < 0x80 else _long_properties(packet, end)
        self._deliver(topic + packet[start:end], packet[end:], flags & 0x01 == 1, number)

    def _do_on_publish(self, mid: int, reason_code: ReasonCode, properties: Properties) -> MQTTErrorCode:
        if reason_code.is_failure:
            self._not_accepted(mid, reason_code)
        return super()._do_on_publish(mid, reason_code, properties)


def split_key(key: bytes) -> tuple[bytes, tuple[int, ...], bool]:
    """Topic and subscription identifiers of a delivered message's key, and whether it holds anything else.

    Anything else belongs to one message, and is not worth caching.
    """
    end = 2 + (key[0] << 8 | key[1])
    topic, raw = key[2:end], key[end:]
    if len(raw) <= 1:
        return topic, (), False
    only = _identifiers(raw)
    if only is not None:
        return topic, only, False
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    tables = set(vars(properties))
    properties.unpack(raw)  # type: ignore[no-untyped-call]
    given = {name: value for name, value in vars(properties).items() if name not in tables}
    identifiers = tuple(given.pop("SubscriptionIdentifier", ()))
    return topic, identifiers, bool(given)


@lru_cache(maxsize=1_024)
def _identifiers(raw: bytes) -> tuple[int, ...] | None:
    """Subscription identifiers of properties that hold nothing else, which paho takes 60 µs for; None for others."""
    found: list[int] = []
    position, length = 1, len(raw)
    if raw[0] != length - 1:
        return None
    while position < length:
        if raw[position] != _SUBSCRIPTION_IDENTIFIER:
            return None
        value = shift = 0
        while True:
            position += 1
            if position == length or shift > 21:
                return None
            value |= (raw[position] & 0x7F) << shift
            shift += 7
            if raw[position] < 0x80:
                break
        if value == 0:
            return None  # paho refuses it
        position += 1
        found.append(value)
    return tuple(found)


def _long_properties(packet: bytes | bytearray, start: int) -> int:
    """Bytes of properties, their length included, where that is a number of several bytes."""
    value = 0
    for position in range(4):
        byte = packet[start + position]
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return position + 1 + value
    raise ValueError("a packet whose properties have no length")
