"""Streams of a detector as one reader receives them: at one home or several, from one host after another.

A detector with replicas publishes the same composite events at the home of each, at different times
(`brokers.node.replication`). A reader that subscribes to a further one has missed its earlier events, which its
watermark covers, too. Such a home is *trusted* when the trusted ones have reached its first received watermark: they
are complete up to there, and it is from there on. Events of an untrusted home count, its watermarks do not. A home no
longer wanted is unsubscribed from once a wanted one is trusted.

Each host of a detector numbers its messages in a *life* of its own (`middleware.wire.numbered_stream`), which is
complete from its *base*: the watermark at which its state was handed over, or up to which it has missed events. At one
home several lives may follow one another, or go on side by side. A life is trusted where the trusted ones have reached
its base; while they have not, the reader requests the rest of these, which the present host may have taken over. Where
no host knows of them any more, what lies between is a loss. What was trusted at one home goes on from there at another
one, whose host may have taken it over. A life that began *empty*, without the state of another,
has nothing of the matches begun before its base; so it only follows lives that are lost, which is a loss in any case.
The last bit of its number says so. Frames are handed on in order. The watermark is the greatest of all trusted lives
and homes, so that replicas go on where messages of one are missing. What was read at a home that is lost, as the last
one, is continued where the detector is next.

A reader that changes from one home to another at once was rejected: events published too early by one replica and too
late by the other were received from neither. So was one numbering over all hosts: two hosts of one detector, as there
may be for a moment, would publish different messages under one number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Self, TypeAlias

from msgspec.structs import replace

from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.wire.administration import MissingMessages, Unavailable
from distced.middleware.wire.frames import Frame
from distced.middleware.wire.numbered_stream import ASK_AFTER, ASK_AGAIN, Loss, NumberedStream

_LOST_HOST: Final = "a host of its detector was lost"

_NO_LIFE: Final = 2
"""Life that no host has, of a reader that has received nothing."""

UNKNOWN_ROUNDS: Final = 2
"""Number of requests about a life, answered by hosts that do not know of it, until it counts as lost. Another host may
have it, and its answers or frames come in between."""

FEW_MESSAGES: Final = 2_000
"""Number of messages of a life up to which a reader that goes on from another one requests the first ones, too."""

MOST_HELD: Final = 10_000
"""Number of frames held behind missing ones; further ones count as missing, too, and are requested behind these."""

MOST_LIVES: Final = 4
"""Number of trusted lives remembered at a home."""


def life_from(microsecond: int, *, empty: bool) -> int:
    """Number of a life that begins at a microsecond, or behind it: odd where it begins empty."""
    return microsecond + (microsecond % 2 != empty)


def begins_empty(life: int) -> bool:
    """Whether a life has begun without the state of another."""
    return life % 2 == 1


LifeState: TypeAlias = tuple[int, int, int | None]
"""Trusted life, as far as it has come: its number, that of its next message, its watermark, ns; None for none."""


class HostStream:
    """Messages of one life of a detector at a home.

    Attributes:
        numbers: which have come.
        base: instant from which it is complete, by its host, ns; None for unknown.
        whole: whether it is received from its first message on.
        first: first watermark behind what was received, ns; None for none. What was before it is not known otherwise.
        trusted: whether everything up to its watermark is known to have come.
        ended: whether its host is known to have ended.
        unknown: number of answers of hosts that do not know of it, since its last sign of life.
        held: frames behind missing ones, and all of a life that is not trusted, by number; none in no order.
    """

    __slots__ = ("base", "ended", "first", "held", "numbers", "trusted", "unknown", "whole")

    def __init__(self, numbers: NumberedStream, *, trusted: bool) -> None:
        self.numbers = numbers
        self.base: int | None = None
        self.whole = numbers.next == 1
        self.first: int | None = None
        self.trusted = trusted
        self.ended = False
        self.unknown = 0
        self.held: dict[int, Frame] = {}

    @property
    def begin(self) -> int | None:
        """Instant from which it is complete for the reader, ns; None for unknown."""
        if self.whole or self.first is None or self.base is None:
            return self.base if self.whole else self.first
        return max(self.first, self.base)

    @property
    def joint(self) -> int | None:
        """Instant that other lives have to reach for it to go on from there, ns; None for unknown, or never."""
        return None if begins_empty(self.numbers.life) else self.begin

    def give_up(self, lost: Unavailable) -> Loss | None:
        """Give up messages that are not available; the loss."""
        assert lost.before
        if self.first is None:
            # Nothing before was promised: it is complete from the first watermark behind them on.
            self.whole = False
        return self.numbers.give_up(lost.before, lost.top, lost.reason)

    @property
    def watermark(self) -> int | None:
        """Watermark up to which everything of this life has come, ns."""
        return self.numbers.watermark

    def take(self, frame: Frame, *, ordered: bool) -> list[Frame]:
        """Take a frame; those to be handed on."""
        assert frame.number is not None
        self.unknown = 0
        if frame.base is not None:
            self.base = frame.base
        if frame.number == 1 and self.numbers.next is None:
            # The first of its life: nothing was before.
            self.numbers.located(1, None)
            self.whole = True
        frames: list[Frame] = []
        if not has_content(frame):
            self.numbers.claim(frame.number, frame.watermark, frame.top)
        elif self.numbers.take(frame.number, frame.watermark, frame.top):
            if ordered:
                self.held[frame.number] = frame
            else:
                frames = [frame]
        self.settle()
        return frames or self.in_order()

    def settle(self) -> None:
        """Note the first watermark."""
        if self.first is None:
            self.first = self.numbers.watermark

    def in_order(self) -> list[Frame]:
        """Frames held with nothing missing before them any more, once trusted."""
        if not self.held or self.numbers.next is None or not self.trusted:
            return []
        following = self.numbers.next
        if len(self.held) == 1:
            (number,) = self.held
            return [self.held.pop(number)] if number < following else []
        return [self.held.pop(number) for number in sorted(each for each in self.held if each < following)]


class HomeStream:
    """Messages of a detector at one home, by life.

    Attributes:
        lives: in the order in which they were first received.
        begin: instant from which everything has come, ns; None for unknown. Constant once known.
        watermark: up to which everything has come, ns; None for none. Never decreases.
        asked_at: instant of the next request, ns; None where nothing is missing.
        is_known: whether the reader has trusted it before, and has come back.
        confirmed: whether its present host has shown how far it is since the reader has come back.
    """

    __slots__ = (
        "_asked", "_continues", "_ordered", "asked_at", "begin", "confirmed", "is_known", "lives", "watermark",
    )  # fmt: skip

    def __init__(self, *, ordered: bool = True, continues: bool = False) -> None:
        """Args: continues: whether the reader goes on from another home, or from a host that is lost."""
        self.lives: dict[int, HostStream] = {}
        self.begin: int | None = None
        self.watermark: int | None = None
        self._continues = continues
        self.is_known = False
        self.confirmed = True
        self.asked_at: int | None = None
        self._asked: int | None = None
        self._ordered = ordered

    @classmethod
    def of(cls, lives: Iterable[LifeState], *, ordered: bool) -> Self:
        """Stream that continues with these lives."""
        made = cls(ordered=ordered, continues=True)
        for each in lives:
            made.go_on_with(each)
        made.begin = INSTANT_MIN
        made.advance()
        return made

    def go_on_with(self, known: LifeState) -> None:
        """Go on with a life that is trusted, and has come further elsewhere."""
        life, number, watermark = known
        one = self.lives.get(life)
        if one is None or not one.trusted or one.numbers.next is None:
            one = self.lives[life] = HostStream(NumberedStream(number, life), trusted=True)
        else:
            one.numbers.give_up(number, None, "")
        if watermark is not None:
            one.numbers.reach(watermark)

    def come_back(self, known: Iterable[LifeState] = ()) -> None:
        """The reader is back, or has known lives from elsewhere: the present host is asked how far it is."""
        for each in known:
            self.go_on_with(each)
        self.confirmed = False
        self.asked_at = 0
        self.advance()

    def state(self) -> tuple[LifeState, ...]:
        """Trusted lives, for a stream that continues."""
        return tuple(
            (life, one.numbers.next, one.numbers.watermark)
            for life, one in self.lives.items()
            if one.trusted and one.numbers.next is not None
        )

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing: of a trusted life, or before the begin of another, whose position is
        known."""
        return (
            self.confirmed
            and bool(self.lives)
            and all(
                each.numbers.complete
                if each.trusted or each.numbers.next is None
                else not each.whole and each.begin is None
                for each in self.lives.values()
            )
        )

    @property
    def complete_from(self) -> int | None:
        """Instant from which everything has come, also of a life that began empty, ns; None for unknown."""
        if self.begin is not None:
            return self.begin
        known = (each.begin for each in self.lives.values() if each.trusted)
        return min((each for each in known if each is not None), default=None)

    @property
    def located(self) -> bool:
        """Whether it is known which messages of a life have come."""
        return any(each.numbers.next is not None for each in self.lives.values())

    def begin_with(self, life: int = 0, number: int | None = None) -> None:
        """Begin with the next message of a life by its number; where these are unknown they are requested."""
        if not self.lives:
            number = None if number is None else self._first_of(number)
            self.lives[life] = HostStream(NumberedStream(number, life), trusted=True)
            self.asked_at = 0 if number is None else None
        elif number is not None:
            self._known_life(life)
            there = self.lives.get(life)
            if there is None and self._is_later(life):
                # Its messages so far may have come before the reader was at this home.
                self.lives[life] = HostStream(NumberedStream(1, life), trusted=False)
                self.asked_at = 0
            elif there is not None and there.numbers.next is None:
                there.numbers.located(number, None)
                self.asked_at = None if self.complete else self.asked_at

    def claim(self, life: int, number: int, watermark: int) -> None:
        """Take the watermark of a known life, ns, behind all messages before a number."""
        there = self.lives.get(life)
        if there is not None:
            there.numbers.claim(number, watermark, None)
            there.settle()
            self.advance()
            if self.asked_at is None and not self.complete:
                self.asked_at = 0

    def take(self, frame: Frame, now: int) -> list[Frame]:
        """Take a frame with a number; those to be handed on, in order."""
        assert frame.number is not None
        self.confirmed = True
        self._known_life(frame.life)
        there = self.lives.get(frame.life)
        if there is None:
            first = self._first_of(frame.number) if self._continues else None
            if self.lives:
                # A new one is received from its first message on, another from here on.
                first = 1 if self._is_later(frame.life) else frame.number
            # In no order there are no watermarks to wait for.
            trusted = not self.lives or (not self._ordered and first != 1)
            there = self.lives[frame.life] = HostStream(NumberedStream(first, frame.life), trusted=trusted)
        frames = there.take(frame, ordered=self._ordered)
        if len(self.lives) > 1 or not there.numbers.complete:
            frames += self._agree()
        self.advance()
        self._note(now)
        return frames

    def unavailable(self, lost: Unavailable, now: int) -> tuple[list[Frame], Loss | None]:
        """Take the answer to a request."""
        self.confirmed |= lost.position
        self._known_life(lost.life)
        there = self.lives.get(lost.life)
        if there is None and self.lives and (lost.position or lost.ended is not None):
            # Its host has begun, and perhaps ended, while the reader was not connected.
            first = 1 if self._is_later(lost.life) or lost.ended is not None else lost.before
            there = self.lives[lost.life] = HostStream(NumberedStream(first, lost.life), trusted=False)
        if there is None:
            return [], None
        loss: Loss | None = None
        frames: list[Frame] = []
        if lost.base is not None:
            there.base = lost.base
        there.ended |= lost.ended is not None
        covered = self._goes_on(there)
        if lost.position:
            there.unknown = 0
            for each in self.lives.values():
                # The position of that one was asked for, too.
                each.unknown += each is not there and each.trusted and each.numbers.next is None
            frames += self._agree()
            loss = self._look_for_lost(_LOST_HOST, frames)
            if there.numbers.next is None and self._first_of(lost.before) == 1:
                there.numbers.located(1, None)
                there.whole = True
            there.numbers.located(lost.before, lost.top, lost.watermark)
        elif lost.ended is not None or lost.before:
            if lost.ended is not None:
                # Its messages were taken over by the present host.
                there.numbers.claim(*lost.ended, None)
            if lost.before:
                given_up = there.give_up(lost)
                reached = INSTANT_MIN if self.watermark is None else self.watermark
                if given_up is not None and given_up.until > reached and there.trusted and not covered:
                    loss = given_up
        else:
            there.unknown += 1
            if self.asked_at is not None:
                self.asked_at = min(now + ASK_AFTER, self.asked_at)
            frames += self._agree()
            loss = self._look_for_lost(lost.reason or _LOST_HOST, frames)
        there.settle()
        frames += there.in_order() + self._agree()
        self.advance()
        self._note(now)
        return frames, loss

    def _look_for_lost(self, reason: str, frames: list[Frame]) -> Loss | None:
        """Trust the last life where no host knows of a trusted one any more; what lies between is lost."""
        if any(each.unknown < UNKNOWN_ROUNDS for each in self.lives.values() if each.trusted):
            return None
        others = {life: each for life, each in self.lives.items() if not each.trusted and each.begin is not None}
        if not others:
            return None
        last = others[max(others)]
        assert last.begin is not None
        since = INSTANT_MIN if self.watermark is None else self.watermark
        lost = [each for each in self.lives.values() if each.trusted]
        losses = [each.numbers.give_up(None, None, reason) for each in lost]
        until = max([last.begin, since, *(each.until for each in losses if each is not None)])
        self.watermark = until
        # Those between have been followed by the last one, too.
        for each in [*lost, *(each for life, each in others.items() if life < last.numbers.life)]:
            frames += [each.held.pop(number) for number in sorted(each.held)]
            del self.lives[each.numbers.life]
        last.trusted = True
        frames += last.in_order()
        return Loss(since, until, reason)

    def _agree(self) -> list[Frame]:
        """Trust lives that the trusted ones have reached, and no longer one with missing messages beside another."""
        frames: list[Frame] = []
        self.advance()
        reached = INSTANT_MIN if self.watermark is None else self.watermark
        for each in self.lives.values():
            if not each.trusted and each.joint is not None and each.joint <= reached:
                each.trusted = True
                frames += each.in_order()
        complete = [each for each in self.lives.values() if each.trusted and each.numbers.complete]
        for life, each in list(self.lives.items()):
            # Of one that is lost nothing comes any more; another goes on.
            gone = each.trusted and each.unknown >= UNKNOWN_ROUNDS and self._is_covered(each)
            if gone or (len(complete) > MOST_LIVES and each is complete[0]):
                frames += [each.held[number] for number in sorted(each.held)]
                del self.lives[life]
        return frames

    def _is_covered(self, one: HostStream) -> bool:
        """Whether another trusted life has come further."""
        others = (each for each in self.lives.values() if each is not one and each.trusted and each.numbers.complete)
        return any(_is_behind(one, other) for other in others)

    def _goes_on(self, one: HostStream) -> bool:
        """Whether another trusted life has come further, and has what one lacks from there on, as it goes on."""
        mark = one.base if one.numbers.watermark is None else one.numbers.watermark
        others = (each for each in self.lives.values() if each is not one and each.trusted and not each.ended)
        return mark is not None and any(
            each.numbers.complete and _is_before(mark, each.numbers.watermark) for each in others
        )

    def go_on_at(self, other: HomeStream | None) -> HomeStream:
        """Go on at the home of another stream, whose lives are trusted once this one has reached their begin."""
        for life, each in ({} if other is None else other.lives).items():
            if life and life not in self.lives:
                each.trusted = each.trusted and other is not None and other.is_known
                self.lives[life] = each
        # What has come at that home of lives known here is requested again.
        self._continues, self.confirmed = True, False
        self.asked_at = 0
        self.advance()
        return self

    def _is_later(self, life: int) -> bool:
        """Whether a life has begun behind the trusted ones, and is received from its first message on."""
        return life > max((each for each, one in self.lives.items() if one.trusted), default=max(self.lives))

    def _first_of(self, number: int) -> int:
        """Number of the message to begin a life with, given the next one."""
        return 1 if self._continues and number <= FEW_MESSAGES else number

    def advance(self) -> None:
        """Compute the watermark, and the begin."""
        for each in self.lives.values():
            mark = each.numbers.watermark
            if each.trusted and self.begin is None:
                self.begin = each.joint
            if each.trusted and mark is not None and (self.watermark is None or mark > self.watermark):
                self.watermark = mark

    def _known_life(self, life: int) -> None:
        """The life that was begun without its number is this one."""
        unknown = self.lives.get(0)
        if unknown is not None and life and life not in self.lives:
            del self.lives[0]
            unknown.numbers.life = life
            self.lives[life] = unknown

    def end(self, reason: str) -> list[Loss]:
        """Give up what is missing of trusted lives, unless another one has it."""
        reached = self.watermark
        losses = [each.numbers.give_up(None, None, reason) for each in self.lives.values() if each.trusted]
        return [each for each in losses if each is not None and _is_before(reached, each.until)]

    def held(self) -> list[Frame]:
        """Frames that wait for missing ones."""
        return [each.held[number] for each in self.lives.values() for number in sorted(each.held)]

    # Requests.

    def _note(self, now: int) -> None:
        if self.complete:
            self.asked_at = self._asked = None
        elif self.asked_at is None:
            unlocated = any(each.numbers.next is None for each in self.lives.values())
            self.asked_at = now if unlocated else now + ASK_AFTER

    def due(self, detector: str, now: int) -> list[MissingMessages]:
        """Missing messages to be requested now."""
        if self.asked_at is None:
            return []
        progress = sum(each.numbers.next or 0 for each in self.lives.values())
        progresses = self._asked is not None and progress != self._asked
        if now < self.asked_at and not (progresses and now >= self.asked_at - ASK_AGAIN + ASK_AFTER):
            return []
        self.asked_at, self._asked = now + ASK_AGAIN, progress
        reached = INSTANT_MIN if self.watermark is None else self.watermark
        joints = (each.joint for each in self.lives.values() if not each.trusted)
        blocked = any(joint is None or joint > reached for joint in joints)
        found = [] if self.confirmed else [MissingMessages("c", detector, 0, 0)]
        for life, each in self.lives.items():
            if each.trusted and blocked and each.numbers.next is not None:
                found.append(MissingMessages("c", detector, each.numbers.next, None, life=life))
                continue
            found += [MissingMessages("c", detector, begin, end, life=life) for begin, end in each.numbers.missing()]
            if not each.trusted and ((each.whole and each.base is None) or (each.joint or reached + 1) <= reached):
                # With the answer it is trusted, if its base is reached.
                found.append(MissingMessages("c", detector, 0, 0, life=life))
        return found


class Streams:
    """Homes at which a reader receives a detector's stream: those `wanted`, and those whose watermarks are `trusted`;
    `left` tells that one was left since the last look.

    Attributes:
        losses: not taken by the reader yet.
        floor: watermark of the detector when the reader began, ns, behind which nothing may be missing; None for
            unknown. It counts where a home is lost before anything of it has come.
        sought: homes whose position was requested over a new connection, and is not known yet.
    """

    def __init__(self, homes: Iterable[str] = (), *, ordered: bool = True, exact: bool = True) -> None:
        """Args: ordered: whether frames wait for missing ones before them. exact: whether no event comes behind a
        watermark; otherwise a loss concerns what is before it, too."""
        self.wanted: tuple[str, ...] = tuple(homes)
        self.trusted: set[str] = set(self.wanted)
        self.left = False
        self.losses: list[Loss] = []
        self.floor: int | None = None
        self.sought: set[str] = set()
        self._ordered, self._exact = ordered, exact
        # The others, with the instants from which they are complete; None for unknown.
        self._first: dict[str, int | None] = {}
        # How far the trusted ones have come, ns; None for nowhere.
        self._watermark: int | None = None
        self._at: dict[str, HomeStream] = {}
        # Watermark reached when the last trusted home was lost, until another one has a watermark; and what had come
        # there, by its numbers, until there is another one.
        self._lost_at: int | None = None
        self._left_off: HomeStream | None = None
        # What had come at homes that were left for others.
        self._left_at: dict[str, HomeStream] = {}

    @property
    def homes(self) -> set[str]:
        """Homes subscribed to."""
        return self.trusted | self._first.keys()

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing at trusted homes."""
        return all(home in self._at and self._at[home].complete for home in self.trusted)

    @property
    def complete_from(self) -> int | None:
        """Instant from which everything of the detector has come, ns; None for unknown."""
        known = (self._at[home].complete_from for home in self.trusted if home in self._at)
        return min((each for each in known if each is not None), default=None)

    def want(self, homes: Iterable[str]) -> None:
        """Subscribe at these homes from now on."""
        self.wanted = tuple(homes)
        for home in self.wanted:
            if home not in self.trusted and home not in self._first:
                self._first[home] = None
        self._settle()

    def begin(self, home: str, life: int = 0, number: int | None = None, watermark: int | None = None) -> int | None:
        """Begin at a home with the next message of a life; where these are unknown they are requested.

        Args:
            watermark: of its host, behind all messages before the next one, ns.

        Returns: the combined watermark, None for none.
        """
        there = self._home(home, life)
        there.begin_with(life, number)
        if number is not None and watermark is not None:
            there.claim(life, number, watermark)
        return self._hear(home, there)

    def take(self, home: str, frame: Frame, now: int) -> tuple[list[Frame], int | None]:
        """Take a frame from a home: those to be handed on, in order, and the combined watermark, None for none."""
        if frame.number is None:
            return [frame], self.hear(home, frame.watermark)
        if home not in self.trusted and home not in self._first:
            # Left, or not listened to yet.
            return [frame], None
        if has_content(frame) and self.would_hold(home, frame) and self.held >= MOST_HELD:
            frame = without_content(frame)
        there = self._home(home, frame.life)
        frames = there.take(frame, now)
        if self.sought and there.complete:
            # Its number shows that nothing is missing before it.
            self.sought.discard(home)
        return frames, self._hear(home, there)

    def would_hold(self, home: str, frame: Frame) -> bool:
        """Whether a frame with content would wait for missing ones, or for its life to be trusted."""
        there = self._at.get(home)
        if there is None or not self._ordered or frame.number is None:
            return False
        one = there.lives.get(frame.life)
        return one is None or not one.trusted or one.numbers.next is None or frame.number > one.numbers.next

    @property
    def held(self) -> int:
        """Number of frames that wait for missing ones."""
        return sum(len(one.held) for there in self._at.values() for one in there.lives.values())

    def unavailable(self, home: str, lost: Unavailable, now: int) -> tuple[list[Frame], int | None]:
        """Take the answer to a request, from a home, as `take`."""
        self.sought.discard(home)
        if home not in self._at:
            return [], None
        there = self._home(home, lost.life)
        frames, loss = there.unavailable(lost, now)
        if loss is not None and home in self.trusted and not self._is_covered(home):
            if len(self.trusted) > 1:
                # Another home may have it: this one counts again once the others are there.
                self.trusted.discard(home)
                self._first[home] = loss.until
            else:
                self._lose(loss)
        return frames, self._hear(home, there)

    def _hear(self, home: str, there: HomeStream) -> int | None:
        if home in self._first and self._first[home] is None:
            self._first[home] = there.begin
            if there.begin is None:
                return None
        return self.hear(home, there.watermark)

    def hear(self, home: str, watermark: int | None) -> int | None:
        """Take a watermark from a home, behind all messages before it; the combined watermark, None for none."""
        if home in self._first and watermark is not None:
            if self._first[home] is None:
                self._first[home] = watermark
            self._settle()
        if watermark is None or home not in self.trusted:
            return None
        if self._watermark is None or watermark > self._watermark or self._lost_at is not None:
            self._reach(watermark)
            self._settle()
        return self._watermark

    def _reach(self, watermark: int) -> None:
        """Count a watermark of a trusted home."""
        if self._lost_at is not None:
            if watermark > self._lost_at:
                self._lose(Loss(self._lost_at, watermark, _LOST_HOST))
            self._lost_at = None
        if self._watermark is None or watermark > self._watermark:
            self._watermark = watermark

    def lost(self, home: str) -> tuple[list[Frame], int | None]:
        """A home is gone, and all its messages have arrived; those that were held, and the watermark behind them.

        What is missing of the last trusted one is requested where its detector is next.
        """
        self.wanted = tuple(each for each in self.wanted if each != home)
        self._first.pop(home, None)
        was_trusted = home in self.trusted
        self.trusted.discard(home)
        self.left = True
        there = self._at.pop(home, None)
        if was_trusted and there is not None:
            self._hand_over(there)
        if was_trusted and not self.trusted:
            if there is not None and there.located:
                self._left_off, there = there, None
            elif self.floor is not None and self._watermark is None:
                self._left_off = HomeStream.of([(_NO_LIFE, 1, self.floor)], ordered=self._ordered)
            else:
                self._lost_at = INSTANT_MIN if self._watermark is None else self._watermark
        self._settle()
        return [] if there is None else there.held(), self._watermark

    def end(self, reason: str) -> list[Frame]:
        """Give up what is missing, as its detector has ended; the frames that were held."""
        losses = [
            loss
            for home in sorted(self.trusted)
            if home in self._at and not self._is_covered(home)
            for loss in self._at[home].end(reason)
        ]
        for loss in losses:
            self._lose(loss)
        return [frame for there in self._at.values() for frame in there.held()]

    def due(self, detector: str, now: int) -> dict[str, list[MissingMessages]]:
        """Missing messages to be requested now, by home."""
        if not self._at:
            return {}
        found = {home: each.due(detector, now) for home, each in self._at.items()}
        return {home: messages for home, messages in found.items() if messages}

    def _lose(self, loss: Loss) -> None:
        # Late events that a lost host would have reported.
        self.losses.append(loss if self._exact else Loss(INSTANT_MIN, loss.until, loss.reason))

    def take_losses(self) -> list[Loss]:
        """Losses since the last call."""
        losses = self.losses
        if losses:
            self.losses = []
        return losses

    # For a detector that moves.

    def state(self) -> dict[str, tuple[LifeState, ...]]:
        """Trusted lives by home, under an empty one where the last home was lost. Frames held are requested again."""
        found = {home: each.state() for home, each in self._at.items() if home in self.trusted}
        return {"": self._left_off.state()} if not found and self._left_off is not None else found

    def resume(self, state: Mapping[str, Iterable[LifeState]]) -> None:
        """Continue from a `state`."""
        for home, lives in state.items():
            if home not in self.homes:
                self._left_off = HomeStream.of(lives, ordered=self._ordered)
                self._watermark = self._left_off.watermark
                continue
            there = self._at[home] = HomeStream.of(lives, ordered=self._ordered)
            if there.watermark is not None and home in self.trusted:
                self._reach(there.watermark)

    def resume_at(self, state: Mapping[str, Iterable[LifeState]]) -> None:
        """Continue from a `state` where the detector is now, or will be next."""
        if not state:
            return
        lives = max(map(list, state.values()), key=lambda each: max(mark or INSTANT_MIN for _, _, mark in each))
        self.resume(dict.fromkeys(sorted(self.homes), lives))
        if not self.trusted:
            self._left_off = HomeStream.of(lives, ordered=self._ordered)
            self._watermark, self._lost_at = self._left_off.watermark, None

    def _home(self, home: str, life: int) -> HomeStream:
        """Stream at a home, with a life that is trusted elsewhere."""
        there = self._at.get(home)
        if there is None:
            continues = self._watermark is not None or self.floor is not None
            there = self._left_at.pop(home, None)
            if there is None:
                there = HomeStream(ordered=self._ordered, continues=continues)
            else:
                there.come_back()
            self._at[home] = there
        if life and there.lives and life not in there.lives:
            others = [*(self._at[each] for each in self.trusted if each in self._at), *self._left_at.values()]
            known = next((state for each in others for state in each.state() if state[0] == life), None)
            if known is not None:
                there.go_on_with(known)
        return there

    def _hand_over(self, left: HomeStream) -> None:
        """Go on at the trusted homes with what has come further at one that is left."""
        for home in self.trusted:
            there = self._at.get(home)
            if there is not None and there.lives and _is_before(there.watermark, left.watermark):
                there.come_back(left.state())

    def _is_covered(self, home: str) -> bool:
        """Whether another trusted home has all that may be missing at this one."""
        here, others = self._at[home].watermark, (each for each in self.trusted if each != home and each in self._at)
        return any(
            mark is not None and (here is None or mark > here)
            for mark in (self._at[each].watermark for each in others if self._at[each].complete)
        )

    def _settle(self) -> None:
        for home, first in list(self._first.items()):
            reached = first is not None and self._watermark is not None and first <= self._watermark
            # Without a trusted stream, this one is all there is.
            if home in self.wanted and (reached or not self.trusted):
                del self._first[home]
                self.trusted.add(home)
                there = self._at.get(home)
                if self._left_off is not None:
                    left_off, self._left_off = self._left_off, None
                    there, first = left_off.go_on_at(there), None
                    self._at[home] = there
                if there is not None and there.watermark is not None:
                    self._reach(there.watermark)
                elif first is not None:
                    self._reach(first)
        if self.trusted.intersection(self.wanted):
            left, trusted = self.homes.difference(self.wanted), set(self.trusted)
            self.trusted -= left
            for home in left:
                self._first.pop(home, None)
                there = self._at.pop(home, None)
                if there is not None and home in trusted:
                    self._hand_over(there)
                    there.is_known = True
                    self._left_at[home] = there
            self.left |= bool(left)


def _is_behind(one: HostStream, other: HostStream) -> bool:
    """Whether another life has come further than one."""
    return _is_before(one.numbers.watermark, other.numbers.watermark)


def _is_before(mark: int | None, further: int | None) -> bool:
    """Whether a watermark is before another one, ns; None for none."""
    return further is not None and (mark is None or further > mark)


def without_content(frame: Frame) -> Frame:
    """Heartbeat in place of a frame that is not taken for now: it and those before it count as missing."""
    assert frame.number is not None
    reached = [each.hi for each in frame.events] + [each.until for each in frame.losses]
    top = max(reached if frame.top is None else [*reached, frame.top], default=None)
    return replace(frame, events=[], open=(), losses=(), number=frame.number + 1, top=top)


def has_content(frame: Frame) -> bool:
    """Whether a frame says more than a heartbeat, so that it has a number of its own."""
    return bool(frame.events or frame.open or frame.losses)
