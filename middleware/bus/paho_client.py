"""paho's MQTT client with a short way in for messages, over an open socket that is read in large pieces.

Two seams of paho are used, both checked on import. `_create_socket`: paho blocks to open a socket and reads a packet
with three system calls; here the socket comes open (`opening`), and one call fills the memory that paho reads from with
hundreds of packets. `_handle_publish`: paho makes an object with a lock and a condition for each message, and under
MQTT 5 a table of all properties; here topic and properties stay bytes, which lead to the handlers through one
dictionary. Together a message costs 4 us instead of 12, or instead of 24 under MQTT 5.

A client of its own was rejected: all else, from keep-alive to reason codes, is paho's.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

if TYPE_CHECKING:
    from paho.mqtt.client import SocketLike
    from paho.mqtt.reasoncodes import ReasonCode

_PIECE: Final = 65_536
"""Bytes read from the socket at once."""

_SEAMS: Final = ("_create_socket", "_handle_publish", "_do_on_publish")

if missing := [name for name in _SEAMS if not hasattr(paho.Client, name)]:
    raise ImportError(f"paho-mqtt has no {', '.join(missing)} any more: use the version distced was released with")


class BufferedSocket:
    """Socket read in large pieces, given out in the small ones that paho asks for."""

    def __init__(self, raw: SocketLike) -> None:
        self.raw = raw
        self._encrypted = isinstance(raw, ssl.SSLSocket)
        self._piece = b""
        self._given = 0

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

    def send(self, buffer: bytes | bytearray) -> int:
        return self.raw.send(buffer)

    def close(self) -> None:
        self.raw.close()

    def fileno(self) -> int:
        return self.raw.fileno()

    def setblocking(self, flag: bool) -> None:
        self.raw.setblocking(flag)


class Deliver(Protocol):
    """Receiver of a raw message: topic and properties, each behind its length, payload, and the packet's number."""

    def __call__(self, key: bytes, payload: bytes, retain: bool, number: int) -> None: ...


NotAccepted: TypeAlias = "Callable[[int, ReasonCode], None]"
"""Takes the number of a published message the server did not accept, and why."""


class Client(paho.Client):
    """paho client for one connection, whose messages go straight to `deliver`.

    Nothing is acknowledged by itself: `deliver` answers for QoS 1 with `ack(number, 1)`.

    Attributes:
        stream: the network, to be set before `connect`.
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

    def _handle_publish(self) -> MQTTErrorCode:
        flags = self._in_packet["command"]
        packet = self._in_packet["packet"]
        end = 2 + (packet[0] << 8 | packet[1])
        number = 0
        if flags & 0x06:
            number = packet[end] << 8 | packet[end + 1]
            del packet[end : end + 2]
        if self._with_properties:
            length = packet[end]
            end += 1 + length if length < 0x80 else _long_properties(packet, end)
        key = bytes(packet[:end])
        # The packet is not read afterwards; cutting its head off saves a copy of the payload.
        del packet[:end]
        self._deliver(key, bytes(packet), flags & 0x01 == 1, number)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _do_on_publish(self, mid: int, reason_code: ReasonCode, properties: Properties) -> MQTTErrorCode:
        if reason_code.is_failure:
            self._not_accepted(mid, reason_code)
        return super()._do_on_publish(mid, reason_code, properties)


def split_key(key: bytes) -> tuple[bytes, tuple[int, ...], bool]:
    """Topic and subscription identifiers of a delivered message's key, and whether it holds anything else.

    A key with anything else is of one message rather than of a topic, and not worth caching.
    """
    end = 2 + (key[0] << 8 | key[1])
    topic, raw = key[2:end], key[end:]
    if len(raw) <= 1:
        return topic, (), False
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    tables = set(vars(properties))
    properties.unpack(raw)  # type: ignore[no-untyped-call]
    given = {name: value for name, value in vars(properties).items() if name not in tables}
    identifiers = tuple(given.pop("SubscriptionIdentifier", ()))
    return topic, identifiers, bool(given)


def _long_properties(packet: bytes | bytearray, start: int) -> int:
    """Bytes of properties, their length included, where that is a number of several bytes."""
    value = 0
    for position in range(4):
        byte = packet[start + position]
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return position + 1 + value
    raise ValueError("a packet whose properties have no length")
