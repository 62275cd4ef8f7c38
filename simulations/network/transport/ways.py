"""The way of messages from a participant to a server, or back: over channels, in order, as over TCP.

Each stage of a way hands messages on in the order in which they were sent, for TCP does not deliver what overtook.
Where a channel is down messages wait, for TCP repeats them; its back-off, by which they would come a little later than
the channel, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from distced.middleware.model.timestamps import SECOND
from distced.simulations.network.transport.links import Channel
from distced.simulations.network.transport.packet_sizes import ACKNOWLEDGEMENT
from distced.simulations.network.transport.virtual_time import Engine

MQTT: Final = "mqtt"
"""What the traffic of connections themselves is counted as."""


class Way:
    """One direction of a connection.

    Attributes:
        channels: what it crosses.
        before, behind: ns within the first site and within the last.
        arrived: told of each message that has come.
        open: whether anything arrives; once closed, what is under way is lost.
    """

    __slots__ = ("_engine", "_last", "arrived", "before", "behind", "channels", "open")

    def __init__(
        self,
        engine: Engine,
        channels: Sequence[Channel],
        before: int,
        behind: int,
        arrived: Callable[[Any], object],
    ) -> None:
        self._engine = engine
        self.channels = tuple(channels)
        self.before = before
        self.behind = behind
        self.arrived = arrived
        self.open = True
        # When the last message had come through each channel, ns.
        self._last = [0] * len(self.channels)

    @property
    def latency(self) -> int:
        """ns that a small message takes at least."""
        return self.before + self.behind + sum(each.latency for each in self.channels)

    @property
    def down(self) -> bool:
        """Whether a channel of it is down."""
        return any(each.down for each in self.channels)

    def send(self, item: Any, size: int, area: str) -> None:
        """Send something of so many bytes."""
        engine = self._engine
        if self.channels:
            engine.at(engine.instant + self.before, self.cross, 0, item, size, area)
        else:
            engine.at(engine.instant + self.before + self.behind, self._arrive, item)

    def cross(self, place: int, item: Any, size: int, area: str) -> None:
        """Something has come to the channel at this place."""
        if not self.open:
            return
        channel = self.channels[place]
        if channel.down:
            channel.held.append((self, place, item, size, area))
            return
        # By far the most of what happens: hence without calls.
        counted = channel.traffic.get(area)
        if counted is None:
            counted = channel.traffic[area] = [0, 0]
        counted[0] += 1
        counted[1] += size
        engine = self._engine
        instant = engine.instant
        if channel.bandwidth:
            if channel.free > instant:
                instant = channel.free
            instant -= -size * SECOND // channel.bandwidth
            channel.free = instant
        instant += channel.latency
        if channel.jitter:
            instant += int(engine.random.random() * channel.jitter)
        last = self._last[place]
        if last > instant:
            instant = last
        self._last[place] = instant
        place += 1
        if place == len(self.channels):
            engine.at(instant + self.behind, self._arrive, item)
        else:
            engine.at(instant, self.cross, place, item, size, area)

    def acknowledge(self) -> None:
        """Count the acknowledgement of a message that came the other way; it takes room, and nobody waits for it."""
        for channel in self.channels:
            if channel.bandwidth:
                begin = max(channel.free, self._engine.instant)
                channel.free = begin - (-ACKNOWLEDGEMENT * SECOND // channel.bandwidth)
            channel.count(MQTT, ACKNOWLEDGEMENT)

    def _arrive(self, item: Any) -> None:
        if self.open:
            self.arrived(item)
