"""Computation of the next item while the last one is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

_T = TypeVar("_T")


def one_ahead(items: Generator[_T, None, None]) -> Iterator[_T]:
    """The same items, each computed in a thread while the one before is used; an error comes in its place."""
    with closing(items), ThreadPoolExecutor(1, "reading") as pool:
        pending = pool.submit(next, items, None)
        while (item := pending.result()) is not None:
            pending = pool.submit(next, items, None)
            yield item
