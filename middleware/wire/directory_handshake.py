"""Directory handshake: a barrier to oneself behind the subscription to the directory, repeated until it comes back.

A server delivers the retained entries of a filter before any message published behind the subscription. A participant
therefore subscribes to the directory and to `topic`, publishes a barrier there, and has read the directory when its
barrier returns. amqtt takes a message before an earlier subscription, so the barrier is repeated each half second.
Entries of an earlier connection not delivered again by then are gone.

Counting the acknowledgements of subscriptions was rejected: MQTT promises no order between them and the retained
messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.topics import ROOT, administration_topic

ASK_EVERY: Final = SECOND // 2  # interval between barriers until one comes back, ns


class DirectoryHandshake:
    """State of one participant's handshake; a participant without a connection does not call `again`.

    Attributes:
        topic: the participant's barrier topic; to be subscribed to before `begin`, beside the directory.
        settled: the directory was read completely at least once, over any connection.
        due: time of the next barrier, ns; None while none is under way.
    """

    def __init__(self, name: str, root: str = ROOT, *below: str) -> None:
        """Handshake of a participant, with further levels of its topic; two of one topic would answer each other."""
        self.topic = administration_topic("known", name, *below, root=root)
        self.settled = False
        self.due: int | None = None
        self._barrier = b""
        self._seen: set[tuple[str, str]] = set()

    @property
    def reading(self) -> bool:
        """Whether a barrier is under way: the directory is being read."""
        return self.due is not None

    def begin(self, now: int) -> Publish:
        """Barrier of a new connection, behind the subscriptions; entries have to be delivered again from here on."""
        self._seen.clear()
        # Numbered, so that a participant may use the topic for other barriers as well.
        self._barrier = b"%d" % now
        return self._ask(now)

    def again(self, now: int) -> list[Publish]:
        """Repetition of the barrier, if it is due."""
        return [self._ask(now)] if self.due is not None and now >= self.due else []

    def saw(self, kind: str, name: str) -> None:
        """Note an entry of the directory as delivered, a cleared one included."""
        if self.due is not None:
            self._seen.add((kind, name))

    def answered(self, payload: bytes) -> bool:
        """Take a message on `topic`; whether it completes the reading."""
        if self.due is None or payload != self._barrier:
            return False
        self.due = None
        self.settled = True
        return True

    def unseen(self, entries: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Entries of these not delivered while the directory was read last, in order; complete once `answered`."""
        return [each for each in entries if each not in self._seen]

    def forget(self) -> None:
        """Drop the record of delivered entries."""
        self._seen = set()

    def _ask(self, now: int) -> Publish:
        self.due = now + ASK_EVERY
        return Publish(self.topic, self._barrier)
