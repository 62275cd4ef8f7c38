"""Client of paho that reads and writes in large pieces, and takes the most frequent packets without its objects.

Seams of paho are used, all checked on import. `_create_socket`: paho blocks to open a socket and reads a packet with
three system calls; here the loop opens the socket, and one call fills the memory that paho reads from with hundreds of
packets. `_packet_read`: messages and acknowledgements that were read wholly are taken in one step, and long messages
are read apart. `_handle_publish`: paho makes an object with a lock and a condition for each message, and under MQTT 5
a table of all properties; here topic and properties stay bytes, which lead to the handlers through one dictionary.
`_send_publish`,
`_handle_pubackcomp`: it makes such objects for each message to be sent, too, 1.6 kB until the server has acknowledged
it, and ten thousand may wait for that. `_send_subscribe`, `_handle_suback`: of each packet paho makes tables, and a
client may have ten thousand subscriptions. Together a message costs 2 us instead of 12, or instead of 24 under MQTT 5.
A client of our own was rejected: all else, from keep-alive to reason codes, is paho's.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from distced.middleware.bus.user_properties import SUBSCRIPTION_IDENTIFIER, subscription_identifiers

if TYPE_CHECKING:
    from paho.mqtt.client import SocketLike

_PUBLISH, _PUBACK, _SUBACK = 0x30, 0x40, 0x90  # types of packets (MQTT 5, section 2.1.2)
_TAKEN: Final = tuple([byte & 0xF0 in (_PUBLISH, _PUBACK, _SUBACK) for byte in range(256)])
_FAILURE: Final = 0x80  # reason codes from which a request has failed
_OPTIONS: Final = {
    (qos, retained): SubscribeOptions(
        qos=qos,
        retainHandling=SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE if retained else SubscribeOptions.RETAIN_DO_NOT_SEND,
    )
    for qos in (0, 1)
    for retained in (True, False)
}
_PIECE: Final = 65_536  # bytes read from the socket at once
_LONG: Final = 2 * 1024 * 1024  # bytes kept for long messages
_SEAMS: Final = (
    *("_create_socket", "_packet_read", "_loop_rc_handle", "_handle_publish", "_send_publish", "_mid_generate"),
    *("_packet_write", "_call_socket_register_write", "_send_subscribe", "_handle_suback", "_handle_pubackcomp"),
)

if missing := [name for name in _SEAMS if not hasattr(paho.Client, name)]:
    raise ImportError(f"paho-mqtt has no {', '.join(missing)} any more: use the version distced was released with")


class BufferedSocket:
    """Socket read and written in large pieces, whatever the small ones that paho asks for and hands over.

    A message that is longer than a piece is read into memory that is kept. At paho memory grows piece by piece: with a
    megabyte it is returned to the system and taken from it with every message, which takes longer than its bytes.

    Attributes:
        long: first byte of a long message that is being read; 0 for none.
    """

    def __init__(self, raw: SocketLike) -> None:
        self.raw = raw
        self.long = 0
        self._encrypted = isinstance(raw, ssl.SSLSocket)
        self._piece = b""
        self._given = 0
        # Handed over and not written, at most `_PIECE` bytes.
        self._unsent = bytearray()
        # Memory for long messages; number of bytes of the one that is read, and of those that were read of it.
        self._memory = bytearray()
        self._length = self._filled = 0

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

    def fill(self) -> bool:
        """Read a piece where nothing is left of the last one; whether there was any. Of errors paho learns with its
        own call."""
        if self._given < len(self._piece):
            return False
        with contextlib.suppress(OSError):
            self._piece, self._given = self.raw.recv(_PIECE), 0
        return self._given < len(self._piece)

    def take_packet(self) -> tuple[int, bytes] | None:
        """Take a PUBLISH, PUBACK or SUBACK packet that was read wholly: its first byte, and what follows its length;
        None for another. A long message goes on with `read_long`."""
        piece, start = self._piece, self._given
        size = len(piece)
        if start >= size or not _TAKEN[piece[start]]:
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
                    if length > _PIECE and piece[start] & 0xF0 == _PUBLISH:
                        self._begin_long(length, piece, start, position)
                    return None
                self._given = end
                return piece[start], piece[position:end]
            shift += 7
        return None

    def _begin_long(self, length: int, piece: bytes, start: int, position: int) -> None:
        self.long, self._length, self._filled = piece[start], length, len(piece) - position
        self._given = len(piece)
        if len(self._memory) < length:
            self._memory = bytearray(max(length, _LONG))
        self._memory[: self._filled] = piece[position:]

    def read_long(self) -> memoryview | None:
        """Read what there is of a long message: what follows its length, until the next one begins; None where there
        is more to come. `EOFError` at the end of the stream."""
        with memoryview(self._memory) as memory:
            number: int = self.raw.recv_into(memory[self._filled : self._length])  # type: ignore[attr-defined]
        if not number:
            raise EOFError
        self._filled += number
        if self._filled < self._length:
            return None
        self.long, memory = 0, memoryview(self._memory)[: self._length]
        if self._length > _LONG:
            self._memory = bytearray()
        return memory

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

Subscribed: TypeAlias = "Callable[[int, str | None], None]"
"""Takes the number of a request for messages, and why the server refuses it, None where it does not."""


class Sent:
    """Message handed over, by its number; `through` once the system has it, at QoS 1 once the server has acknowledged
    it. In place of paho's `MQTTMessageInfo`."""

    __slots__ = ("number", "through")

    def __init__(self, number: int) -> None:
        self.number = number
        self.through = False

    def _set_as_published(self) -> None:
        """For paho, which has written the packet of a message of QoS 0."""
        self.through = True


class _Packed(NamedTuple):
    """Properties as bytes, in place of paho's."""

    packed: bytes

    def pack(self) -> bytes:
        return self.packed


_NO_PROPERTIES: Final = _Packed(b"\0")


class Client(paho.Client):
    """paho client for one connection, whose messages go straight to `deliver`.

    `deliver` acknowledges QoS 1 by `ack(number, 1)`; `stream`, the network, is to be set before `connect`.
    """

    def __init__(
        self,
        protocol: MQTTProtocolVersion,
        client_id: str,
        *,
        clean: bool,
        deliver: Deliver,
        not_accepted: NotAccepted,
        subscribed: Subscribed,
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
        self._subscribed = subscribed
        # Messages of QoS 1, by number.
        self._unacknowledged: dict[int, Sent] = {}
        self._with_properties = protocol == MQTTProtocolVersion.MQTTv5

    def _create_socket(self) -> SocketLike:
        if self.stream is None:
            raise OSError("the socket is not open")
        return self.stream

    def identify(self, client_id: str) -> None:
        """Connect as another client than was said before."""
        self._client_id = client_id.encode()

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

    def send(self, topic: str, payload: bytes, qos: int, retain: bool, properties: bytes = b"") -> Sent:
        """Prepare the packet of a message, under MQTT 5 perhaps with packed properties; never through where the
        connection is over."""
        number = self._mid_generate()
        while number in self._unacknowledged:
            number = self._mid_generate()
        sent = Sent(number)
        if qos:
            self._unacknowledged[number] = sent
        packed = _Packed(properties) if properties and self._with_properties else None
        self._send_publish(number, topic.encode(), payload, qos, retain, info=sent, properties=packed)  # type: ignore[arg-type]
        return sent

    def request(self, topic_filter: str, qos: int, identifier: int | None, *, retained: bool = True) -> int | None:
        """Request matching messages, perhaps marked, or without the retained ones (MQTT 5); the number of the answer,
        None without a connection."""
        if not self._with_properties:
            return self.subscribe(topic_filter, qos)[1]
        if self.socket() is None:
            return None
        properties = _NO_PROPERTIES if identifier is None else _Packed(_identifier_property(identifier))
        return self._send_subscribe(0, [(topic_filter.encode(), _OPTIONS[qos, retained])], properties)[1]  # type: ignore[arg-type]

    def take_published(self) -> bool:
        """Take a message or an acknowledgement that was read wholly, in one step instead of paho's for each of its
        parts; False for none.

        What paho notes of the connection is noted with each piece that is read.
        """
        found = None if self.stream is None or self._in_packet["command"] else self.stream.take_packet()
        if found is None:
            return False
        command, packet = found
        kind = command & 0xF0
        if kind == _PUBLISH:
            self._published(command, packet)
        elif kind == _PUBACK:
            self._acknowledged(packet)
        else:
            self._answered(packet)
        return True

    def read_packet(self) -> None:
        """Read a packet in paho's steps, or the part of it that is there; `loop_read` may read many."""
        stream = self.stream
        if self.socket() is None or stream is None:
            return
        if not self._in_packet["command"] and not stream.long and stream.fill():
            self._heard()
            if self.take_published():
                return
        if (code := self._read_long(stream) if stream.long else self._packet_read()) > 0:
            self._loop_rc_handle(code)

    def _read_long(self, stream: BufferedSocket) -> MQTTErrorCode:
        flags = stream.long
        try:
            packet = stream.read_long()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return MQTTErrorCode.MQTT_ERR_AGAIN
        except (OSError, EOFError):
            return MQTTErrorCode.MQTT_ERR_CONN_LOST
        self._heard()
        if packet is None:
            return MQTTErrorCode.MQTT_ERR_AGAIN
        start = 2 + (packet[0] << 8 | packet[1]) + (2 if flags & 0x06 else 0)
        if self._with_properties:
            start += 1 + packet[start] if packet[start] < 0x80 else _long_properties(packet, start)
        self._published(flags, bytes(packet[:start]), bytes(packet[start:]))
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _heard(self) -> None:
        """Note for keep-alive that bytes were read."""
        with self._msgtime_mutex:
            self._last_bytes_received = paho.time_func()

    def _handle_publish(self) -> MQTTErrorCode:
        self._published(self._in_packet["command"], bytes(self._in_packet["packet"]))
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_pubackcomp(self, cmd: Literal["PUBACK", "PUBCOMP"]) -> MQTTErrorCode:
        if cmd != "PUBACK":
            return super()._handle_pubackcomp(cmd)
        self._acknowledged(bytes(self._in_packet["packet"]))
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_suback(self) -> None:
        self._answered(bytes(self._in_packet["packet"]))

    def _acknowledged(self, packet: bytes) -> None:
        """Take the server's acknowledgement of a message of QoS 1: its number, under MQTT 5 perhaps a reason code."""
        number = packet[0] << 8 | packet[1]
        sent = self._unacknowledged.pop(number, None)
        if sent is None:
            return
        if len(packet) > 2 and packet[2] >= _FAILURE:
            self._not_accepted(number, ReasonCode(PacketTypes.PUBACK, identifier=packet[2]))
        sent.through = True

    def _answered(self, packet: bytes) -> None:
        """Take the server's answer to a request for messages: its number, and a code for each filter."""
        start = 2
        if self._with_properties:
            length = packet[2]
            start += 1 + length if length < 0x80 else _long_properties(packet, 2)
        codes = [code for code in packet[start:] if code >= _FAILURE]
        refusal = ReasonCode(PacketTypes.SUBACK, identifier=codes[0]).getName() if codes else None
        self._subscribed(packet[0] << 8 | packet[1], refusal)

    def _published(self, flags: int, packet: bytes, payload: bytes | None = None) -> None:
        end = 2 + (packet[0] << 8 | packet[1])
        topic, number = packet[:end], 0
        if flags & 0x06:
            number = packet[end] << 8 | packet[end + 1]
            end += 2
        start = end
        if self._with_properties:
            length = packet[end]
            end += 1 + length if length < 0x80 else _long_properties(packet, end)
        payload = packet[end:] if payload is None else payload
        self._deliver(topic + packet[start:end], payload, flags & 0x01 == 1, number)


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
    return topic, subscription_identifiers(raw), True


def plain_key(key: bytes, topic: bytes, identifiers: tuple[int, ...]) -> bytes | None:
    """Key of a delivered message without anything that belongs to it alone; None for several identifiers, which few
    messages have."""
    if len(identifiers) > 1:
        return None
    return key[: 2 + len(topic)] + (_identifier_property(identifiers[0]) if identifiers else b"\0")


@lru_cache(maxsize=1_024)
def _identifiers(raw: bytes) -> tuple[int, ...] | None:
    """Subscription identifiers of properties that hold nothing else, which paho takes 60 µs for; None for others."""
    found: list[int] = []
    position, length = 1, len(raw)
    if raw[0] != length - 1:
        return None
    while position < length:
        if raw[position] != SUBSCRIPTION_IDENTIFIER:
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


def _identifier_property(identifier: int) -> bytes:
    """Properties with a subscription identifier and nothing else."""
    value = bytearray([0, SUBSCRIPTION_IDENTIFIER])
    while identifier > 0x7F:
        value.append(0x80 | identifier & 0x7F)
        identifier >>= 7
    value.append(identifier)
    value[0] = len(value) - 1
    return bytes(value)


def _long_properties(packet: bytes | bytearray | memoryview, start: int) -> int:
    """Bytes of properties, their length included, where that is a number of several bytes."""
    value = 0
    for position in range(4):
        byte = packet[start + position]
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return position + 1 + value
    raise ValueError("a packet whose properties have no length")
