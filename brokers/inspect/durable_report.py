"""Read-only view of durable subscriptions: a report for programs, and a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.console import RenderableType
from rich.text import Text

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.lookup import short_ids
from distced.brokers.inspect.nodes import lasting
from distced.middleware.cli.output import size, table
from distced.middleware.model.timestamps import format_duration
from distced.middleware.wire.directory_entries import DurableEntry


class DurableReport(msgspec.Struct, frozen=True):
    """Report on a durable subscription.

    Attributes:
        client: that reads it, or the last one.
        pattern: empty where it has ended.
        node, detector: that serve it; None where no node does.
        away: since when no client reads it, ns; None while one does.
        keep_for, keep_bytes: limits, ns and bytes.
        frames, events, bytes: kept messages, their composite events, and bytes.
        oldest: publication of the oldest kept message, ns; None for none.
        dropped: composite events dropped beyond the limit, or at the end.
        ended: when it was ended, ns; None where it was not. Its name is known for a month.
        reason: why it was ended, or waits.
    """

    name: str
    subscription: str
    client: str
    pattern: str
    node: str | None
    detector: str | None
    away: int | None
    keep_for: int
    keep_bytes: int
    frames: int
    events: int
    bytes: int
    oldest: int | None
    dropped: int
    ended: int | None
    reason: str


class SubscriptionsReport(msgspec.Struct, frozen=True):
    """Report on all durable subscriptions."""

    subscriptions: tuple[DurableReport, ...]


def subscriptions_report(directory: Directory) -> SubscriptionsReport:
    """Report on all durable subscriptions, and those whose end is remembered."""
    found: list[DurableReport] = []
    for name in directory.durable_names.keys() | directory.durables.keys():
        entry, state = directory.subscriptions.get(name), directory.durables.get(name) or DurableEntry("")
        terms = None if entry is None else entry.durable
        if (terms is None and not state.ended) or (terms is not None and terms.rules):
            continue
        away = state.away if terms is None else state.away or terms.away
        found.append(
            DurableReport(
                _plain(name) if terms is None else terms.name,
                name,
                "" if entry is None else entry.client,
                "" if entry is None else entry.pattern,
                state.node or None,
                state.detector or None,
                away or None,
                0 if terms is None else terms.keep_for,
                0 if terms is None else terms.keep_bytes,
                state.frames,
                state.events,
                state.size,
                state.oldest or None,
                state.dropped,
                state.ended or None,
                state.reason,
            )
        )
    return SubscriptionsReport(tuple(sorted(found, key=lambda each: each.name)))


def subscriptions_text(report: SubscriptionsReport, now: int) -> Iterator[RenderableType]:
    """A table, with absences up to an instant, ns."""
    if not report.subscriptions:
        yield Text("no durable subscriptions: `distced subscribe PATTERN --durable NAME` makes one", "yellow")
        return
    short = short_ids({each.detector for each in report.subscriptions if each.detector})
    rows = [
        [
            Text(each.name, "cyan"),
            _reader(each, now),
            Text(each.node or ""),
            Text(short[each.detector] if each.detector else ""),
            Text(f"{each.events:,}" if each.frames else ""),
            Text(f"{size(each.bytes)} of {size(each.keep_bytes)}" if each.frames else ""),
            Text(f"{each.dropped:,}" if each.dropped else "", "yellow"),
            Text(each.pattern),
        ]
        for each in report.subscriptions
    ]
    headings = ("name", "read by", "node", "detector", "kept", "size", "dropped", "pattern")
    yield table(headings, rows, right=("kept", "size", "dropped"))


def _reader(each: DurableReport, now: int) -> Text:
    if each.ended is not None:
        return Text(f"ended: {each.reason}", "yellow")
    if each.away is None:
        return Text(each.client)
    limit = f" of {format_duration(each.keep_for)}" if each.keep_for else ""
    return Text(f"away for {lasting(max(now - each.away, 0))}{limit}", "yellow")


def _plain(subscription: str) -> str:
    """Name of a durable subscription, by that in the directory."""
    return subscription.partition(":")[2].replace("%2E", ".").replace("%25", "%")
