"""What a recorder remembers, along with the operations that are to be kept of it."""

from __future__ import annotations

from distced.brokers.recorder.effects import Append
from distced.brokers.recorder.state import Batch, Heard, Joined, Keeper, Operation, encode_operation
from distced.detectors.snapshot_format import pack_event
from distced.middleware.model.events import Event


class Memory:
    """A keeper that is changed by operations only, each of which is to be kept.

    Attributes:
        keeper: what is remembered.
    """

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self._operations: list[Append] = []

    def do(self, operation: Operation) -> Batch | None:
        """Do something; of a `Cut` what is to be written."""
        self._keep(operation)
        return self.keeper.apply(operation)

    def hear(self, source: str, events: list[Event], watermark: int | None, now: int) -> None:
        """Events of a source have come."""
        self._keep(Heard(source, [pack_event(event) for event in events], watermark, now))
        self.keeper.hear(source, events, watermark, now)

    def join(self, joined: Joined) -> int:
        """Somebody is waited for; how far everybody is."""
        self._keep(joined)
        return self.keeper.join(joined)

    def taken(self) -> list[Append]:
        """What is to be kept since this was asked before."""
        operations, self._operations = self._operations, []
        return operations

    def _keep(self, operation: Operation) -> None:
        self._operations.append(Append(encode_operation(operation)))
