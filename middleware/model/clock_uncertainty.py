"""Uncertainty of clocks: their greatest distance from true time, which makes timestamps intervals (design, section 1).

It is configured, or taken from the kernel where NTP keeps the clock: the offset that is not corrected yet, and the
maximum error, which the kernel increases by 500 ppm as long as it hears nothing of a time server (RFC 5905, section 11;
`adjtimex(2)`). The estimated error was rejected: it is no bound.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND

NTP: Final = "ntp"

Uncertainty: TypeAlias = int | Literal["ntp"]
"""Of the clock of a source: ns to either side, or `ntp` for that of the machine's clock."""

READ_EVERY: Final = SECOND
"""Interval of readings of the kernel's clock, ns."""

MOST: Final = 3_600 * SECOND
"""Greatest uncertainty, ns."""

_ALLOWED: Final = f"ns, from 0 to {MOST}, or {NTP!r} for the clock of this machine"


class _Timex(ctypes.Structure):
    """`struct timex` of Linux, as far as it is used."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


_UNSYNCHRONISED: Final = 0x40
_IN_NANOSECONDS: Final = 0x2000


def ntp_uncertainty() -> int:
    """Greatest error of the clock of this machine, ns, as the kernel has it.

    Raises:
        DistcedError: no such figure, or the clock is not synchronised.
    """
    advice = "give the uncertainty in ns, or start a time service such as chrony"
    if not sys.platform.startswith("linux"):
        raise DistcedError("no error of the clock is known here", given=sys.platform, allowed="Linux", advice=advice)
    timex = _Timex()
    library = ctypes.CDLL(None, use_errno=True)
    if library.adjtimex(ctypes.byref(timex)) < 0:
        raise DistcedError("the error of the clock cannot be read", given=ctypes.get_errno(), advice=advice)
    return error_of(timex.offset, timex.maxerror, timex.status, advice=advice)


def error_of(offset: int, maxerror: int, status: int, *, advice: str = "") -> int:
    """Greatest error of a clock, ns, from figures of `adjtimex`: the maximum error is in µs.

    Raises:
        DistcedError: the clock is not synchronised.
    """
    if status & _UNSYNCHRONISED:
        raise DistcedError("the clock is not synchronised", given=f"status {status:#x}", advice=advice)
    return abs(offset) * (1 if status & _IN_NANOSECONDS else 1_000) + maxerror * 1_000


def uncertainty_of(given: Uncertainty, read: Callable[[], int] = ntp_uncertainty) -> Callable[[int], int]:
    """Function that gives the uncertainty of a clock at an instant of it, ns.

    Args:
        read: reads the error of the clock of this machine, ns.

    Raises:
        DistcedError: neither an uncertainty nor `ntp`; or for that no error is known.
    """
    if given == NTP:
        return _Read(read).at
    if type(given) is not int or not 0 <= given <= MOST:
        raise DistcedError("not an uncertainty of a clock", given=given, allowed=_ALLOWED)
    fixed: int = given
    return lambda now: fixed


class _Read:
    """Error of the clock of this machine, read now and then. Once it is not known any more, the last one holds."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read
        self._error = read()
        self._read_at: int | None = None

    def at(self, now: int) -> int:
        if self._read_at is None or not 0 <= now - self._read_at < READ_EVERY:
            elapsed = 0 if self._read_at is None else max(now - self._read_at, 0)
            self._read_at = now
            try:
                self._error = self._read()
            except DistcedError:
                # As the kernel does: by 500 ppm.
                self._error = min(self._error + elapsed // 2_000, MOST)
        return self._error
