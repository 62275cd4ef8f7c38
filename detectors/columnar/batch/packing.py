"""Columns of batches for the compiled loop: a tag and 64 bits for each event and column.

Texts and compound keys become numbers, equal iff the values are, by dictionaries that live with the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distced.detectors.columnar.batch.columns import Batch, Column, ColumnName
from distced.detectors.columnar.batch.values import FLOAT, INTEGER, NULL, TEXT, Texts, plain


class ColumnPacker:
    """Packs columns of batches, and single keys, for one loop."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        # The same memory for every batch: the system would have to clear new memory first.
        self._room = np.empty(0, np.uint8), np.empty(0, np.int64)
        self._dictionaries: dict[int, tuple[Any, Any]] = {}
        self._keys: dict[tuple[str, ...], dict[tuple[int, ...], int]] = {}
        self._values: dict[tuple[str, ...], list[tuple[int, ...]]] = {}

    def pack(self, batch: Batch, names: Sequence[ColumnName]) -> tuple[Any, Any]:
        """Tags (uint8) and payload (int64) of these columns of a batch, a row each; valid until the next batch."""
        count = len(batch)
        width = max(len(names), 1)
        if len(self._room[0]) < width * count:
            self._room = np.empty(2 * width * count, np.uint8), np.empty(2 * width * count, np.int64)
        tags = self._room[0][: width * count].reshape(width, count)
        payload = self._room[1][: width * count].reshape(width, count)
        pieces = batch.pieces
        for place, name in enumerate(names):
            if len(pieces) == 1:
                self._fill_one(tags[place], payload[place], batch, name)
                continue
            for piece, places in pieces:
                some_tags, some_payload = np.empty(len(piece), np.uint8), np.empty(len(piece), np.int64)
                self._fill_one(some_tags, some_payload, piece, name)
                tags[place, places], payload[place, places] = some_tags, some_payload
        return tags, payload

    def packed_key(self, names: tuple[str, ...], key: object) -> tuple[int, int]:
        """Tag and bits of a key of these attributes, in the stepwise engine's form."""
        if not names:
            return 0, 0
        values = key if len(names) > 1 and isinstance(key, tuple) else (key,)
        parts = [self._texts.packed(plain(value[0] if isinstance(value, tuple) else value)) for value in values]
        if len(names) == 1:
            return parts[0]
        numbers = self._keys.setdefault(names, {})
        return INTEGER, numbers.setdefault(tuple(word for part in parts for word in part), len(numbers))

    def key_values(self, names: tuple[str, ...], number: int) -> list[tuple[int, int]]:
        """Tags and bits of the values of a key of several attributes."""
        known = self._keys[names]
        if len(self._values.get(names, ())) != len(known):
            self._values[names] = list(known)
        words = self._values[names][number]
        return list(zip(words[::2], words[1::2], strict=True))

    def _fill_one(self, tags: Any, payload: Any, batch: Batch, name: ColumnName) -> None:
        if isinstance(name, tuple):
            self._fill_key(tags, payload, batch, name)
        else:
            self._fill(tags, payload, batch.column(name))

    def _fill(self, tags: Any, payload: Any, column: Column | None) -> None:
        if column is None:
            tags[:] = NULL
            payload[:] = 0
            return
        tags[:] = column.tags
        payload[:] = column.payload
        if isinstance(column.tags, int) and column.tags not in (NULL, TEXT):
            return
        if column.texts is not None:
            mine = self._numbered(column.texts)
            texts = tags == TEXT
            if texts.all():
                payload[:] = mine[column.payload]
            else:
                payload[texts] = mine[column.payload[texts]]
        payload[tags == NULL] = 0

    def _numbered(self, texts: Sequence[str]) -> Any:
        known = self._dictionaries.get(id(texts))
        if known is None or known[0] is not texts or len(known[1]) != len(texts):
            known = (texts, np.array(self._texts.numbers(texts) or [0], np.int64))
            self._dictionaries = {id(texts): known} if len(self._dictionaries) > 64 else self._dictionaries
            self._dictionaries[id(texts)] = known
        return known[1]

    def _fill_key(self, tags: Any, payload: Any, batch: Batch, names: tuple[str, ...]) -> None:
        """The values of a key as numbers that are equal iff the values are; one number for several attributes."""
        if len(names) == 1:
            column = batch.column(names[0])
            self._fill(tags, payload, column)
            if column is None or not isinstance(column.tags, int) or column.tags == FLOAT:
                self._without_floats(tags, payload)
            return
        parts = []
        for name in names:
            part_tags, part_payload = np.empty(len(batch), np.uint8), np.empty(len(batch), np.int64)
            self._fill(part_tags, part_payload, batch.column(name))
            self._without_floats(part_tags, part_payload)
            parts += [part_tags.astype(np.int64), part_payload]
        numbers = self._keys.setdefault(names, {})
        distinct, inverse = np.unique(np.stack(parts, axis=1), axis=0, return_inverse=True)
        mine = np.array([numbers.setdefault(tuple(each), len(numbers)) for each in distinct.tolist()], np.int64)
        payload[:] = mine[inverse.reshape(-1)] if len(mine) else 0
        tags[:] = INTEGER
        for kinds in parts[::2]:
            tags[kinds == NULL] = NULL

    def _without_floats(self, tags: Any, payload: Any) -> None:
        """Replace floats that are whole numbers by integers: they are equal."""
        floats = tags == FLOAT
        if floats.any():
            values = payload.view(np.float64)
            whole = floats & (values >= -(2.0**63)) & (values < 2.0**63)
            whole[whole] = values[whole] == np.floor(values[whole])
            payload[whole] = values[whole].astype(np.int64)
            tags[whole] = INTEGER
