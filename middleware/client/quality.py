"""Quality of service of a subscription (design, section 3)."""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

import msgspec
from msgspec.structs import force_setattr

from distced.middleware.model.detection import parse_detection
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import HOUR, INSTANT_MAX, INSTANT_MIN, instant_of, parse_duration
from distced.middleware.wire.directory_entries import Hints
from distced.middleware.wire.topics import check_json_topic

msgspec.json.Decoder(Hints)  # resolves its annotations before there are threads, for `convert`

Consumption = Literal["ordered", "epoch"]
Matches = Literal["every", "first"]
Decomposition = Literal["none", "full", "for-reuse"]
Overflow = Literal["wait", "drop"]

BEGINNING: Final = "beginning"
"""Origin at the begin of a recording."""

KEEP_FOR: Final = 24 * HOUR
"""Default time without an application until a durable subscription ends, ns."""

KEEP_BYTES: Final = 64 * 1024 * 1024
"""Default limit of what nodes keep for a durable subscription, bytes."""

MOST_LETTERS: Final = 200
"""Length of the name of a durable subscription at most."""


class QualityOfService(msgspec.Struct, frozen=True, kw_only=True):
    """Quality of service of a subscription.

    Attributes:
        detection: `guaranteed` consumes events when they are stable, and is right; `best-effort` consumes them as they
            arrive, is fast, and may be wrong where events come late; `bounded(2s)` consumes them when they are older
            than that, `probabilistic(0.99)` when no earlier one is under way with that probability. With the last two
            the interval of an event that comes later yet is reported as a `Loss`.
        consumption: `ordered`, one event after the other, or `epoch`, all events of an instant together.
        matches: `every` composite event, or the `first` only; the subscription then ends.
        constituents: whether the events a composite event is made of are sent along.
        rate: most composite events a second; others are counted and left out. None for no limit.
        decomposition: sub-patterns that become detectors of their own, perhaps on other nodes: `none`, `full`, wherever
            the rule allows it, or `for-reuse`, where a detector of it is there already; None for the choice of the
            distribution policy. With guaranteed detection only; the composite events are the same.
        distribution: the distribution policy that places the detectors: a name such as `min-latency`, or three words
            for
            its dimensions, checked by broker nodes. Empty for the one that is set for all.
        publish_json: topic of your choice, on which nodes publish each composite event as JSON, too
            (`middleware.wire.json_events.encode_json`), at the server of the client's site; empty for that in the
            pattern, or none.
        hints: knowledge of the application: nodes to take or to avoid, rates, selectivity, isolation.
        queue: number of events that wait for the application, from which on no further message is taken.
        overflow: where the queue is full, events `wait` at their publishers, within what these keep, and are sent again
            when half of it is free; or the oldest half is dropped (`drop`), for an application that wants the latest
            ones. What is dropped, or no longer kept, is reported as a `Loss` in its place.
        durable: name of a durable subscription, unlike all others; empty for one that ends with its client. While no
            application reads it, nodes go on detecting and keep its composite events; the next application that
            subscribes under the name goes on behind what was taken, and ends the subscription of an earlier one.
        keep_for: longest time without an application until a durable subscription ends, ns, or text such as `24h`.
        keep_bytes: limit of what nodes keep for a durable subscription; beyond it the oldest composite events are
            dropped, and reported as a `Loss`.
        since: origin of recorded events that come first, before live ones: their least `hi`, ns, or as text, ISO 8601,
            `-2h` before now, or `beginning`, that of the recording. None for live events only. Not for durable
            subscriptions.
    """

    detection: str = "guaranteed"
    consumption: Consumption = "ordered"
    matches: Matches = "every"
    constituents: bool = False
    decomposition: Decomposition | None = None
    rate: float | None = None
    distribution: str = ""
    publish_json: str = ""
    hints: Hints = Hints()
    queue: int = 10_000
    overflow: Overflow = "wait"
    durable: str = ""
    keep_for: int | str = KEEP_FOR
    keep_bytes: int = KEEP_BYTES
    since: int | str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "detection", parse_detection(self.detection).text)
        choices = {
            "consumption": Consumption,
            "matches": Matches,
            "overflow": Overflow,
        }
        if self.decomposition is not None:
            choices["decomposition"] = Decomposition
        for name, kinds in choices.items():
            given, allowed = getattr(self, name), get_args(kinds)
            if given not in allowed:
                raise DistcedError(f"unknown quality of service, {name}", given=given, allowed=", ".join(allowed))
        if self.decomposition not in (None, "none") and self.detection != "guaranteed":
            raise DistcedError(
                "a pattern is cut with guaranteed detection only: what others find is never known to be complete",
                given=f"decomposition {self.decomposition}, detection {self.detection}",
                advice="leave the decomposition at none, or take guaranteed detection",
            )
        if self.rate is not None and not self.rate > 0:
            raise DistcedError("not an upper rate", given=self.rate, allowed="more than 0 a second, or None")
        if not isinstance(self.distribution, str):
            raise DistcedError("not a distribution policy", given=self.distribution, allowed="a name, or three words")
        if self.publish_json:
            check_json_topic(self.publish_json)
            if self.matches == "first" or self.rate is not None:
                raise DistcedError(
                    "composite events as JSON are neither limited to the first nor to a rate: nodes publish them",
                    given=f"publish_json {self.publish_json}",
                    advice="leave out the limit, or have the application publish what it gets",
                )
        _check(self.hints)
        if self.queue < 1:
            raise DistcedError("not a number of events to wait", given=self.queue, allowed="1 or more")
        if isinstance(self.keep_for, str):
            force_setattr(self, "keep_for", parse_duration(self.keep_for))
        if self.durable != "":
            self._check_durable()
        if self.since is not None:
            self._check_since()

    def _check_since(self) -> None:
        _ = origin_at(self.since, 0)
        wrong = "durable" if self.durable else "isolated" if self.hints.isolated else ""
        if wrong or self.decomposition not in (None, "none"):
            raise DistcedError(
                "a subscription that cannot begin with recorded events",
                given=wrong or f"decomposition {self.decomposition}",
                allowed="one of a whole pattern, not durable, and without a process of its own",
                advice="leave since out, or the others",
            )

    def _check_durable(self) -> None:
        name = self.durable
        if not isinstance(name, str) or not name.isprintable() or name != name.strip() or len(name) > MOST_LETTERS:
            allowed = f"a text of up to {MOST_LETTERS} printable characters, without blanks around"
            raise DistcedError("not a name for a durable subscription", given=repr(name)[:80], allowed=allowed)
        if self.matches == "first":
            raise DistcedError(
                "a durable subscription is for every match",
                given=f"durable {name}, matches first",
                advice="close it with forget=True after the first one",
            )
        if self.overflow == "drop":
            raise DistcedError(
                "a durable subscription drops nothing: what was dropped would count as taken",
                given=f"durable {name}, overflow drop",
                allowed="overflow wait",
                advice="limit what nodes keep with keep_bytes, which gives a Loss for what is beyond",
            )
        for limit in ("keep_for", "keep_bytes"):
            if getattr(self, limit) < 1:
                raise DistcedError(f"not a limit, {limit}", given=getattr(self, limit), allowed="1 or more")


def origin_at(since: int | str | None, now: int) -> int | None:
    """Instant of an origin at a time, ns; None for the begin of the recording."""
    if since is None:
        return None
    if isinstance(since, int):
        if not INSTANT_MIN <= since <= INSTANT_MAX:
            raise DistcedError("an origin beyond 64 bits of nanoseconds", given=since)
        return since
    text = since.strip()
    if text == BEGINNING:
        return None
    try:
        return now - parse_duration(text[1:]) if re.match(r"-\s*[\d.]+\s*[a-z]", text) else instant_of(text)
    except DistcedError:
        allowed = "an instant in ISO 8601 or ns, a time before now such as -2h, or beginning"
        raise DistcedError("not an origin", given=since, allowed=allowed) from None


def _check(hints: Hints) -> None:
    """Check hints, as far as that needs no nodes and types."""
    if not isinstance(hints, Hints):
        raise DistcedError(
            "not hints",
            given=hints,
            allowed="distced.middleware.wire.directory_entries.Hints(nodes=..., rates=..., ...)",
        )
    try:
        msgspec.convert(msgspec.to_builtins(hints), Hints)
    except (msgspec.ValidationError, TypeError) as error:
        raise DistcedError("not hints", given=hints, allowed=str(error)) from None
    both = sorted(set(hints.nodes) & set(hints.avoid))
    if both:
        raise DistcedError(
            "nodes that detectors are to stand on, and to avoid", given=", ".join(both), advice="name them once"
        )
    for name, rate in hints.rates.items():
        if not 0 <= rate < float("inf"):
            raise DistcedError(f"not a rate of events of the type {name!r}", given=rate, allowed="0 or more a second")
    if hints.selectivity is not None and not 0 <= hints.selectivity < float("inf"):
        raise DistcedError(
            "not a selectivity", given=hints.selectivity, allowed="composite events for each event, 0 or more"
        )


DEFAULT_QUALITY: Final = QualityOfService()
"""Quality of service where none is given, one for all subscriptions."""
