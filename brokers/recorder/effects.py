"""Effects of a recorder: those of every participant, operations journaled, and batches written."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from distced.brokers.core.effects import Effect
from distced.brokers.recorder.state import Batch


class Append(msgspec.Struct, frozen=True):
    """Journal an operation, packed, before anything received until now is acknowledged."""

    operation: bytes


class Write(msgspec.Struct, frozen=True):
    """Write a batch; operations journaled before it are not needed then."""

    batch: Batch


RecorderEffect: TypeAlias = Effect | Append | Write
