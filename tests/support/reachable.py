"""Memory of an object: bytes of all that it refers to, directly or not, but for code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType

_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType, FrameType)


def reachable_bytes(root: object, without: Iterable[object] = ()) -> int:
    """Bytes of the objects reachable from one, without those reachable only through some others."""
    seen = {id(each) for each in without}
    waiting = [root]
    total = 0
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, _CODE):
            continue
        seen.add(id(found))
        total += sys.getsizeof(found)
        waiting += gc.get_referents(found)
        # Structs without garbage collection do not name what they refer to.
        fields = getattr(type(found), "__struct_fields__", ())
        waiting += [getattr(found, name) for name in fields if not gc.is_tracked(found)]
    return total
