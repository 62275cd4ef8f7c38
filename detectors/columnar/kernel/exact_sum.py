"""Exact sums of numbers by window: Kulisch's superaccumulator, a fixed-point number as wide as the range of floats.

A sum is a row of limbs of 32 bits in words of 64, so that a number is added to three of them and what is carried waits
until the sum is read (U. Kulisch, "Computer Arithmetic and Validity", chapter 8; R. Neal, "Fast exact summation using
small and large superaccumulators", 2015). To take a number back is to add it with the other sign, and nothing of it is
left; sums are rounded once, half to even, as those of the stepwise engine. Rejected: sums of two or three floats, which
are not exact for every input; integers of Python, which the compiled loop does not have.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from distced.detectors.columnar.batch.values import INTEGER
from distced.detectors.columnar.kernel.jit import compiled
from distced.detectors.columnar.word_offsets import LIMBS, W_HIGH, W_LOW

BIAS: Final = 1088
"""Power of two of the first limb, negated: below the least float, and a multiple of 32."""

UNIT: Final = BIAS // 32  # the limb of ones
LIMB: Final = 32
MASK: Final = 2**32 - 1
FRACTION: Final = 2**52  # the hidden bit of a float
EXPONENT: Final = 0x7FF
INFINITE: Final = EXPONENT << 52  # bits of the infinite float
SIGN: Final = -(2**63)


@intrinsic  # type: ignore[untyped-decorator]
def float_of(typing_context: Any, bits: Any) -> Any:
    """The float of 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@compiled
def is_infinite(bits):
    """Whether these are the bits of an infinite float."""
    return (bits >> 52) & EXPONENT == EXPONENT


@compiled
def add(own, slot, tag, bits, sign):
    """Add a finite number to the sum of a window, or subtract it."""
    limbs, windows = own.limbs, own.windows
    if tag == INTEGER:
        if bits < 0:
            sign = -sign
            bits = -bits
        size = np.uint64(bits)
        first, last = np.int64(UNIT), np.int64(UNIT + 1)
        limbs[slot, first] += sign * np.int64(size & np.uint64(MASK))
        limbs[slot, last] += sign * np.int64(size >> np.uint64(LIMB))
    else:
        if bits < 0:
            sign = -sign
        exponent, size = (bits >> 52) & EXPONENT, bits & (FRACTION - 1)
        if exponent == 0:
            exponent = np.int64(1)
        else:
            size |= FRACTION
        if size == 0:
            return
        # Units of 2 to the `exponent - 1075`.
        place = exponent - 1075 + BIAS
        first, shift = place >> 5, place & 31
        last = first + 2
        low, high = (size & MASK) << shift, (size >> LIMB) << shift
        limbs[slot, first] += sign * (low & MASK)
        limbs[slot, first + 1] += sign * ((low >> LIMB) + (high & MASK))
        limbs[slot, last] += sign * (high >> LIMB)
    if first < windows[slot, W_LOW]:
        windows[slot, W_LOW] = first
    if last > windows[slot, W_HIGH]:
        windows[slot, W_HIGH] = last


@compiled
def clear(own, slot):
    """Set the sum of a window to 0."""
    windows = own.windows
    for place in range(windows[slot, W_LOW], windows[slot, W_HIGH] + 1):
        own.limbs[slot, place] = 0
    windows[slot, W_LOW], windows[slot, W_HIGH] = LIMBS, -1


@compiled
def size_of(own, slot):
    """Write the absolute value of a sum to the scratch limbs, from its least one on; whether it is negative. What is
    carried is settled, except from the greatest limb."""
    limbs, scratch = own.limbs, own.scratch
    low, high = own.windows[slot, W_LOW], own.windows[slot, W_HIGH]
    carried = np.int64(0)
    for place in range(low, high):
        limb = limbs[slot, place] + carried
        carried = limb >> LIMB
        limb &= MASK
        limbs[slot, place] = scratch[place - low] = limb
    top = np.int64(0)
    if high >= low:
        top = limbs[slot, high] + carried
        limbs[slot, high] = top
    negative = top < 0
    if negative:
        carried = np.int64(1)
        for place in range(high - low):
            limb = (scratch[place] ^ MASK) + carried
            carried = limb >> LIMB
            scratch[place] = limb & MASK
        top = ~top + carried
    if high >= low:
        scratch[high - low] = top & MASK
        scratch[high - low + 1] = top >> LIMB
    return negative


@compiled
def whole(own, slot, negative):
    """The sum on the scratch limbs as an integer, and whether it has 64 bits; for windows of integers alone."""
    scratch = own.scratch
    low, high = own.windows[slot, W_LOW], own.windows[slot, W_HIGH]
    for place in range(UNIT + 2 - low, high - low + 2):
        if scratch[place] != 0:
            return np.int64(0), False
    size = np.int64(scratch[UNIT - low] | scratch[UNIT + 1 - low] << LIMB)
    if size < 0:
        # 2 to the 63rd or more.
        return size, negative and size == SIGN
    return -size if negative else size, True


@compiled
def rounded(own, slot, negative, count):
    """Bits of the float next to the sum on the scratch limbs divided by a number below 2 to the 32nd, half to even."""
    scratch = own.scratch
    low = own.windows[slot, W_LOW]
    place = own.windows[slot, W_HIGH] - low + 1
    while place >= 0 and scratch[place] == 0:
        place -= 1
    if place < 0:
        return np.int64(0)
    divisor, width = np.uint64(count), np.uint64(LIMB)
    rest = np.uint64(0)
    # The first digit of the quotient that is not 0, and two more, in base 2 to the 32nd.
    first = second = third = np.uint64(0)
    wanted = 3
    while wanted > 0:
        digit = rest << width
        if place >= 0:
            digit |= np.uint64(scratch[place])
        place -= 1
        if count == 1:
            quotient = digit
        else:
            quotient = digit // divisor
            rest = digit - quotient * divisor
        if wanted == 3:
            if quotient != np.uint64(0):
                first = quotient
                wanted = 2
        elif wanted == 2:
            second = quotient
            wanted = 1
        else:
            third = quotient
            wanted = 0
    beyond = rest != np.uint64(0)
    unit = np.int64(LIMB) * (low + place + 1) - BIAS
    while place >= 0 and not beyond:
        beyond = scratch[place] != 0
        place -= 1
    # 64 bits of which the first is 1.
    bits = np.int64(0)
    while first >> np.uint64(bits) != np.uint64(0):
        bits += 1
    digits = ((first << width | second) << np.uint64(LIMB - bits)) | third >> np.uint64(bits)
    beyond = beyond or third & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1)) != np.uint64(0)
    unit += bits
    found = to_float(digits, unit, beyond)
    return found | SIGN if negative else found


@compiled
def to_float(digits, unit, beyond):
    """Bits of the float next to 64 digits, the first of which is 1, in units of a power of two; `beyond`: whether there
    is more than these."""
    if unit + 11 + 1074 >= EXPONENT - 1:
        return np.int64(INFINITE)
    is_normal = unit + 11 >= -1074
    dropped = np.int64(11) if is_normal else -1074 - unit
    if dropped > 64:
        return np.int64(0)
    if dropped == 64:
        kept, rest = np.uint64(0), digits
    else:
        kept = digits >> np.uint64(dropped)
        rest = digits & ((np.uint64(1) << np.uint64(dropped)) - np.uint64(1))
    half = np.uint64(1) << np.uint64(dropped - 1)
    if rest > half or (rest == half and (beyond or kept & np.uint64(1) != np.uint64(0))):
        kept += np.uint64(1)
    found = np.int64(kept)
    if is_normal:
        found += (unit + 11 + 1074) << 52
    return found
