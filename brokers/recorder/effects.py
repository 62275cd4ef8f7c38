"""What a recorder wants to have done: what every participant may want, operations kept, and batches written."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from distced.brokers.core.effects import Effect
from distced.brokers.recorder.state import Batch


class Append(msgspec.Struct, frozen=True):
    """Keep an operation, packed, before anything is acknowledged that came until now."""

    operation: bytes


class Write(msgspec.Struct, frozen=True):
    """Write a batch; what was kept before it is not needed then."""

    batch: Batch


Wish: TypeAlias = Effect | Append | Write
"""What a recorder wants to have done."""
