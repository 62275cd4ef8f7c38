"""Whether a recorder has read the directory: it asks itself, by the server, until its own message has come back.

What the server had before it has told by then, and what was subscribed to before is in force. Until then no source is
told that it is counted with.
"""

from __future__ import annotations

from typing import Final

from distced.brokers.core.effects import Effect, Publish
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import Acknowledgement, encode
from distced.middleware.wire.topics import administration_topic

ASK_EVERY: Final = SECOND // 2
"""How often a recorder asks whether it has read the directory, until it has, ns."""


class Asking:
    """The question of a recorder to itself.

    Attributes:
        settled: whether the directory was read, once.
    """

    def __init__(self, speaker: str, root: str, topic: str, now: int) -> None:
        """
        Args:
            speaker: in whose name sources are acknowledged.
            topic: where the question goes.
        """
        self.settled = False
        self._speaker = speaker
        self._root = root
        self._topic = topic
        self._asked: bytes | None = None
        self._asked_at = now
        self._unsent: dict[str, Publish] = {}

    @property
    def open(self) -> bool:
        """Whether an answer is waited for."""
        return self._asked is not None

    def begin(self, now: int) -> Publish:
        """Ask: a connection stands."""
        self._asked, self._asked_at = b"%d" % now, now
        return Publish(self._topic, self._asked)

    def again(self, now: int) -> list[Effect]:
        """Ask again, where it is time for that."""
        if self._asked is None or now - self._asked_at < ASK_EVERY:
            return []
        # A server may take a message before a subscription that was sent before it, and amqtt does.
        self._asked_at = now
        return [Publish(self._topic, self._asked)]

    def answered(self, payload: bytes) -> bool:
        """Whether that is the answer."""
        if payload != self._asked:
            return False
        self._asked = None
        self.settled = True
        return True

    def acknowledge(self, source: str, watermark: int) -> list[Effect]:
        """Tell a source that it is counted with, now or when the answer is there."""
        topic = administration_topic("ack", source, self._speaker, root=self._root)
        ack = Publish(topic, encode(Acknowledgement(watermark)))
        if self._asked is None:
            return [ack]
        # The server may not have taken all subscriptions yet.
        self._unsent[source] = ack
        return []

    def unsent(self) -> list[Publish]:
        """What sources are to be told now that the answer is there."""
        acks, self._unsent = self._unsent, {}
        return list(acks.values())
