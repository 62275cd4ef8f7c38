"""Bundles of arrays that the compiled loop is handed as one address each.

A named tuple of twenty arrays is, for numba, an argument of a hundred and fifty words, taken apart and put together
again in every call: that was half of the time it took to compile the loop. Here an array of a bundle is read where it
is used, from a table of addresses and lengths. A table never changes once it is made, and the compiler is told so; so
it reads once what is used in a loop, whatever the loop writes in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Self

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

ANY: Final = -1
"""A width that is not known when the loop is compiled."""


@dataclass(frozen=True)
class Rows:
    """What an array holds.

    Attributes:
        dtype: of its numbers.
        width: how many there are in a row; 0 where the array has one dimension, `ANY` where it differs.
    """

    dtype: Any
    width: int = 0

    @property
    def dimensions(self) -> int:
        """Of the array."""
        return 2 if self.width else 1


class Bundle:
    """Arrays by name; which, and what they hold, a class says in `arrays`.

    A bundle does not change, though what its arrays hold does; with other arrays it is another bundle.
    """

    arrays: ClassVar[dict[str, Rows]]

    def __init__(self, **arrays: Any) -> None:
        for name, rows in self.arrays.items():
            array = arrays.pop(name)
            fits = array.dtype == rows.dtype and array.flags.c_contiguous and array.ndim == rows.dimensions
            if not fits or (rows.width > 0 and array.shape[1] != rows.width):
                raise TypeError(f"{name} of {type(self).__name__} is {array.dtype} {array.shape}, not {rows}")
            setattr(self, name, array)
        if arrays:
            raise TypeError(f"{type(self).__name__} has no {', '.join(arrays)}")

    def replaced(self, **arrays: Any) -> Self:
        """The same with other arrays."""
        return type(self)(**{name: getattr(self, name) for name in self.arrays} | arrays)

    @cached_property
    def _table(self) -> Any:
        words = []
        for name in self.arrays:
            array = getattr(self, name)
            words += [array.ctypes.data, len(array), array.shape[-1]]
        return np.array(words, np.int64)

    @cached_property
    def address(self) -> int:
        """Of the table: of each array where it is, how long, how wide."""
        return int(self._table.ctypes.data)


_WORDS: Final = 3


class BundleType(types.Opaque):
    """What numba knows of a class of bundles."""

    def __init__(self, made: type[Bundle]) -> None:
        # Where in the table, the type, the width.
        self.members = {
            name: (place * _WORDS, types.Array(from_dtype(np.dtype(rows.dtype)), rows.dimensions, "C"), rows.width)
            for place, (name, rows) in enumerate(made.arrays.items())
        }
        super().__init__(f"{made.__name__}({self.members})")


register_model(BundleType)(models.OpaqueModel)


@typeof_impl.register(Bundle)  # type: ignore[untyped-decorator]
def _type_of(value: Bundle, _: Any) -> BundleType:
    kind = type(value)
    if kind not in _TYPES:
        _TYPES[kind] = BundleType(kind)
    return _TYPES[kind]


_TYPES: Final[dict[type[Bundle], BundleType]] = {}


@unbox(BundleType)  # type: ignore[untyped-decorator]
def _unboxed(_: Any, value: Any, context: Any) -> NativeValue:
    address = context.pyapi.object_getattr_string(value, "address")
    native = context.pyapi.long_as_longlong(address)
    context.pyapi.decref(address)
    return NativeValue(context.builder.inttoptr(native, ir.IntType(8).as_pointer()))


@infer_getattr
class _Member(AttributeTemplate):  # type: ignore[misc]
    key = BundleType

    def generic_resolve(self, bundle: BundleType, name: str) -> Any:
        return bundle.members[name][1] if name in bundle.members else None


@lower_getattr_generic(BundleType)  # type: ignore[untyped-decorator]
def _read(context: Any, builder: Any, bundle: BundleType, value: Any, name: str) -> Any:
    place, kind, width = bundle.members[name]
    word = ir.IntType(64)
    table = builder.bitcast(value, word.as_pointer())

    def read(offset: int) -> Any:
        loaded = builder.load(builder.gep(table, [ir.Constant(word, place + offset)], inbounds=True))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    shape, strides = [read(1)], [ir.Constant(word, size)]
    if width:
        columns = ir.Constant(word, width) if width > 0 else read(2)
        shape.append(columns)
        strides.insert(0, builder.mul(columns, strides[0]))
    array = make_array(kind)(context, builder)
    populate_array(
        array,
        data=builder.inttoptr(read(0), array.data.type),
        shape=shape,
        strides=strides,
        itemsize=ir.Constant(word, size),
        meminfo=None,
    )
    return array._getvalue()
