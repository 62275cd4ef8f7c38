"""Bandwidths and durations as text: `10MB/s`, `1Gbit/s`, `12.5ms`.

Exact both ways, in whole bytes per second or ns. A megabyte is a million bytes, as in networks; `MiB` is read, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from distced.middleware.model.timestamps import UNITS
from distced.policies.topology.errors import TopologyError

_DECIMAL: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_BITS: Final[dict[str, int]] = {
    **{f"{prefix}B/s": 8 * factor for prefix, factor in (_DECIMAL | _BINARY).items()},
    **{f"{prefix}bit/s": factor for prefix, factor in _DECIMAL.items()},
}
_BANDWIDTH: Final = re.compile(r"(\d+)(?:\.(\d+))?\s*([A-Za-z]+/s)")
_UNITS: Final = ("TB/s", "GB/s", "MB/s", "kB/s", "B/s", "GiB/s", "MiB/s", "KiB/s")
_WRITTEN: Final = {unit: _BITS[unit] // 8 for unit in _UNITS}
_DURATIONS: Final = {unit: UNITS[unit] for unit in ("d", "h", "min", "s", "ms", "us", "ns")}
_DECIMALS: Final = 3


def parse_bandwidth(text: str) -> int:
    """Bytes per second of a text such as `10MB/s` or `1Gbit/s`."""
    match = _BANDWIDTH.fullmatch(text.strip())
    if match is None or match[3] not in _BITS:
        raise TopologyError(
            "not a bandwidth",
            given=text,
            allowed=f"a number and a unit out of {', '.join(_BITS)}",
            advice="write 10MB/s for bytes, 80Mbit/s for bits",
        )
    whole, fraction = match[1], match[2] or ""
    scale: int = 8 * 10 ** len(fraction)
    bytes_per_second, rest = divmod(int(whole + fraction) * _BITS[match[3]], scale)
    if rest or not bytes_per_second:
        raise TopologyError("not a bandwidth", given=text, allowed="a whole number of bytes per second, from 1B/s")
    return bytes_per_second


def show_bandwidth(bytes_per_second: int) -> str:
    """Short text that `parse_bandwidth` reads back as the same."""
    return _shortest(bytes_per_second, _WRITTEN)


def show_duration(nanoseconds: int) -> str:
    """Short text that `timestamps.parse_duration` reads back as the same, such as `12.5ms`."""
    return _shortest(nanoseconds, _DURATIONS) if nanoseconds else "0s"


def show_number(number: float) -> str:
    """TOML number without an empty fraction: `5`, `0.25`."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 10**15 else repr(float(number))


def _shortest(value: int, units: Mapping[str, int]) -> str:
    """Shortest exact text, in units up to the value; the first of equals."""
    texts = []
    for unit, size in units.items():
        for decimals in range(_DECIMALS + 1):
            number, rest = divmod(value * 10**decimals, size)
            if value >= size and not rest:
                whole, fraction = divmod(number, 10**decimals)
                texts.append(f"{whole}.{fraction:0{decimals}}{unit}" if decimals else f"{whole}{unit}")
                break
    return min(texts, key=len)
