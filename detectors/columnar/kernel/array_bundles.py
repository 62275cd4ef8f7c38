"""Array bundles as a numba type: an array is read in place, from the bundle's table of addresses and lengths.

A table never changes once it is made, and the compiler knows that; so it reads once what is used in a loop, whatever
the loop writes in between.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from distced.detectors.columnar.state import TABLE_WORDS, ArrayBundle


class ArrayBundleType(types.Opaque):
    """The numba type of a class of bundles."""

    def __init__(self, made: type[ArrayBundle]) -> None:
        # Where in the table, the type, the width.
        self.members = {
            name: (place * TABLE_WORDS, types.Array(from_dtype(np.dtype(rows.dtype)), rows.dimensions, "C"), rows.width)
            for place, (name, rows) in enumerate(made.arrays.items())
        }
        super().__init__(f"{made.__name__}({self.members})")


register_model(ArrayBundleType)(models.OpaqueModel)


@typeof_impl.register(ArrayBundle)  # type: ignore[untyped-decorator]
def _type_of(value: ArrayBundle, _: Any) -> ArrayBundleType:
    kind = type(value)
    if kind not in _TYPES:
        _TYPES[kind] = ArrayBundleType(kind)
    return _TYPES[kind]


_TYPES: Final[dict[type[ArrayBundle], ArrayBundleType]] = {}


@unbox(ArrayBundleType)  # type: ignore[untyped-decorator]
def _unboxed(_: Any, value: Any, context: Any) -> NativeValue:
    address = context.pyapi.object_getattr_string(value, "address")
    native = context.pyapi.long_as_longlong(address)
    context.pyapi.decref(address)
    return NativeValue(context.builder.inttoptr(native, ir.IntType(8).as_pointer()))


@infer_getattr
class _Member(AttributeTemplate):  # type: ignore[misc]
    key = ArrayBundleType

    def generic_resolve(self, bundle: ArrayBundleType, name: str) -> Any:
        return bundle.members[name][1] if name in bundle.members else None


@lower_getattr_generic(ArrayBundleType)  # type: ignore[untyped-decorator]
def _read(context: Any, builder: Any, bundle: ArrayBundleType, value: Any, name: str) -> Any:
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
