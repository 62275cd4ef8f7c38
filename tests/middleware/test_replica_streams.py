"""Streams of a detector against a model: hosts that follow one another or go on beside each other, over a channel that
loses, delays and repeats messages. A reader never promises more than has come or is reported as lost."""

from __future__ import annotations

from random import Random

import pytest

from distced.middleware.model.events import CompositeEvent
from distced.middleware.model.timestamps import INSTANT_MIN, MILLISECOND
from distced.middleware.wire import replica_streams
from distced.middleware.wire.administration import MissingMessages, Unavailable
from distced.middleware.wire.frames import Frame
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.replica_streams import Streams, life_from

STEP = 200 * MILLISECOND


class Host:
    """Host of the detector at a home: it publishes what is true, behind its base."""

    def __init__(self, home: str, life: int, base: int) -> None:
        self.home, self.life, self.base, self.watermark = home, life, base, base
        self.frames: list[Frame] = []
        # Of hosts before that have handed over: their frames, last watermarks, and bases.
        self.before: dict[int, tuple[list[Frame], int, int]] = {}

    def publish(self, his: list[int], watermark: int) -> Frame:
        """A frame with events, or a heartbeat."""
        self.watermark = watermark
        events = [CompositeEvent("C", hi, hi, "d", hi, {}, constituents=()) for hi in his]
        number = len(self.frames) + 1
        base = self.base if not events or number == 1 else None
        frame = Frame("c", "C", "d", watermark, list(events), number=number, life=self.life, base=base)
        if events:
            self.frames.append(frame)
        return frame

    def answer(self, asked: MissingMessages) -> list[Frame | Unavailable]:
        """As `brokers.node.output_streams`."""
        position = Unavailable(
            "c", "d", len(self.frames) + 1, position=True, life=self.life, base=self.base, watermark=self.watermark
        )
        if not asked.begin and asked.end == 0:
            return [position]
        if asked.life == self.life:
            frames = self.frames[asked.begin - 1 : None if asked.end is None else asked.end - 1]
            return list(frames) if frames else [position]
        answers: list[Frame | Unavailable] = [
            Unavailable("c", "d", 0, life=life, base=base, ended=(len(frames) + 1, watermark))
            for life, (frames, watermark, base) in self.before.items()
            if life > asked.life or asked.life not in self.before
        ]
        if asked.life in self.before:
            frames, watermark, _ = self.before[asked.life]
            following = len(frames) + 1
            answers.append(Unavailable("c", "d", 0, life=asked.life, ended=(following, watermark)))
            if asked.begin > following or (asked.begin == following and asked.end is not None):
                answers.append(Unavailable("c", "d", 0, life=asked.life, reason="its host was lost"))
            return [*answers, *frames[asked.begin - 1 :]]
        return [*answers, Unavailable("c", "d", 0, life=asked.life, reason="its host was lost")]


class Model:
    """The hosts, the channel and the reader; `true` are the instants of all composite events."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now, self.lives, self.instant = 0, 1, 0
        # Of hosts that have begun without a state: base, and when the one before was lost.
        self.begun: list[tuple[int, int]] = []
        self.hosts = [Host("a", 1, INSTANT_MIN)]
        self.true: list[int] = []
        self.streams = Streams(["a"])
        self.streams.begin("a", 1, 1)
        self.got: list[int] = []
        self.losses: list[Loss] = []
        self.reached = INSTANT_MIN
        self.channel: list[tuple[int, str, Frame | Unavailable]] = []
        self.bad = 0.3
        self.checkpoint()

    def send(self, home: str, item: Frame | Unavailable) -> None:
        for _ in range(1 + (self.random.random() < self.bad / 3)):
            if self.random.random() >= self.bad:
                late = self.random.choice((0, 0, 0, 3)) if self.bad else 0
                self.channel.append((self.now + late * STEP, home, item))

    def step(self) -> None:
        """Events happen, hosts publish them, messages arrive, the reader requests what it lacks."""
        self.now += STEP
        begin = self.instant
        self.instant += self.random.randrange(1, 6)
        his = sorted(self.random.sample(range(begin + 1, self.instant + 1), self.random.randrange(2)))
        self.true += his
        for host in self.hosts:
            apart = his[: self.random.randrange(len(his) + 1)]
            for hi in apart:
                self.send(host.home, host.publish([hi], hi))
            rest = [hi for hi in his if hi not in apart]
            self.send(host.home, host.publish(rest, self.instant))
        due = [each for each in self.channel if each[0] <= self.now]
        self.channel = [each for each in self.channel if each[0] > self.now]
        for _, home, item in due:
            if isinstance(item, Unavailable):
                self.take(*self.streams.unavailable(home, item, self.now))
            else:
                self.take(*self.streams.take(home, item, self.now))
        for home, messages in self.streams.due("d", self.now).items():
            for asked in messages:
                for host in self.hosts:
                    if host.home == home and self.random.random() >= self.bad:
                        for answer in host.answer(asked):
                            self.send(home, answer)

    def take(self, frames: list[Frame], watermark: int | None) -> None:
        self.losses += self.streams.take_losses()
        self.got += [event.hi for frame in frames for event in frame.events]
        for base, lost_at in [each for each in self.begun if watermark is not None and watermark > each[1]]:
            # Matches begun before may end behind it, and the host before has published nothing that is.
            self.begun.remove((base, lost_at))
            assert any(each.since <= lost_at and each.until >= base for each in self.losses), (base, self.losses)
        if watermark is not None and watermark > self.reached:
            self.reached = watermark
        come = set(self.got)
        for hi in self.true:
            if hi <= self.reached and hi not in come:
                assert any(each.since < hi <= each.until for each in self.losses), (hi, self.reached, self.losses)

    # What happens to hosts.

    def new_life(self, *, empty: bool = False) -> int:
        self.lives = life_from(self.lives + 1, empty=empty)
        return self.lives

    def move(self) -> None:
        """The first host hands over to another one, at its home."""
        old = self.hosts[0]
        made = Host(old.home, self.new_life(), old.watermark)
        self.send(old.home, old.publish([], old.watermark))
        made.before = {**old.before, old.life: (old.frames, old.watermark, old.base)}
        self.hosts[0] = made

    def lose(self) -> None:
        """The only host is lost without its state, and another one begins behind the events so far."""
        # Its base may lie before what the reader has: what is behind it may belong to matches begun before.
        base = self.instant - self.random.choice((0, 0, 5))
        made = self.hosts[0] = Host(self.hosts[0].home, self.new_life(empty=True), base)
        for hi in self.true:
            if hi > base:
                self.send(made.home, made.publish([hi], hi))
        self.begun.append((base, self.instant))

    def checkpoint(self) -> None:
        """The first host writes a checkpoint, with its last frames."""
        host = self.hosts[0]
        self.written = host, {**host.before, host.life: (list(host.frames), host.watermark, host.base)}

    def recover(self, home: str) -> None:
        """The only host is lost; another one, perhaps at another home, goes on from the checkpoint."""
        host, before = self.written
        watermark = before[host.life][1]
        old, made = self.hosts[0], Host(home, self.new_life(), watermark)
        made.before = before
        self.hosts[0] = made
        if home != old.home:
            self.streams.want([home])
            self.take(*self.streams.lost(old.home))
        for hi in self.true:
            if hi > watermark:
                self.send(home, made.publish([hi], hi))

    def replicate(self, home: str) -> None:
        """A further host begins with the state of the first."""
        self.hosts.append(Host(home, self.new_life(), self.hosts[0].watermark))
        self.streams.want(sorted({each.home for each in self.hosts}))

    def end_first(self) -> None:
        """The first host is lost, and its replica goes on."""
        home = self.hosts.pop(0).home
        if all(each.home != home for each in self.hosts):
            self.streams.want(sorted({each.home for each in self.hosts}))
            self.take(*self.streams.lost(home))

    def settle(self) -> None:
        """The channel is as it should be, and the reader catches up."""
        self.bad = 0.0
        for _ in range(40):
            self.step()
        assert self.reached >= self.hosts[0].watermark - 12, (self.reached, self.hosts[0].watermark)


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_reader_promises_what_has_come_or_is_lost(start: int) -> None:
    lost = 0
    for seed in range(start, start + 100):
        model = Model(seed)
        for _ in range(60):
            model.step()
            if model.random.random() < 0.05:
                if len(model.hosts) > 1:
                    model.end_first()
                else:
                    model.random.choice((model.move, model.lose, lambda m=model: m.replicate(m.random.choice("ab"))))()
        model.settle()
        lost += bool(model.losses)
    assert lost > 10


@pytest.mark.parametrize("start", range(0, 200, 100))
@pytest.mark.parametrize("held", [replica_streams.MOST_HELD, 1, 0])
def test_nothing_is_lost_as_long_as_somebody_has_it(start: int, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_streams, "MOST_HELD", held)
    for seed in range(start, start + 100):
        model = Model(seed)
        model.bad = 0.15
        for step in range(80):
            model.step()
            # A host takes the frames of the one before along, and no others.
            if step % 25 == 24:
                model.move()
            assert model.streams.held <= held
        model.settle()
        assert not model.losses and set(model.got) >= {hi for hi in model.true if hi <= model.reached}


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_nothing_is_lost_with_a_host_that_has_written_checkpoints(start: int) -> None:
    for seed in range(start, start + 100):
        model = Model(seed)
        model.bad = 0.15
        for step in range(80):
            model.step()
            if step % 4 == 0:
                model.checkpoint()
            if step % 20 == model.random.randrange(20):
                model.recover(model.random.choice("aab"))
        model.settle()
        assert not model.losses, (seed, model.losses)
        assert set(model.got) >= {hi for hi in model.true if hi <= model.reached}, seed


def test_life_that_an_answer_tells_of_is_requested() -> None:
    """Its only message has come before the reader was back at this home."""
    streams = Streams(["h"])
    streams.begin("h", life_from(2, empty=False), 1, 5)
    second = life_from(8, empty=False)
    assert streams.begin("h", second, 1, 9) == 5 and not streams.complete
    assert MissingMessages("c", "d", 0, 0, life=second) in streams.due("d", 0)["h"]
    position = Unavailable("c", "d", 1, position=True, life=second, base=5, watermark=9)
    assert streams.unavailable("h", position, 1) == ([], 9) and streams.complete


@pytest.mark.parametrize("ended", [True, False])
def test_messages_that_are_not_kept_are_lost_where_the_life_before_has_ended(ended: bool) -> None:
    before, after = life_from(1_000, empty=False), life_from(2_000, empty=False)
    streams = Streams([""])
    streams.resume({"": ((before, 14, 3_000),)})
    streams.take("", Frame("c", "C", "d", 12_000, [], number=2, life=after, base=2_000), 0)
    if ended:
        streams.unavailable("", Unavailable("c", "d", 0, life=before, base=1_000, ended=(14, 3_000)), 0)
    _, reached = streams.unavailable("", Unavailable("c", "d", 2, 11_000, life=after, reason="not kept"), 0)
    # Otherwise the one before goes on, and has them.
    assert [(each.since, each.until) for each in streams.take_losses()] == [(INSTANT_MIN, 11_000)] * ended
    assert reached == 12_000


def test_what_was_trusted_at_a_home_goes_on_at_another_one() -> None:
    one, other = life_from(1_000, empty=True), life_from(2_000, empty=False)
    streams = Streams(["a", "b"])
    for home, life in (("a", one), ("b", other)):
        streams.begin(home, life, 1)
        streams.take(home, Frame("c", "C", "d", 5_000, [], number=1, life=life, base=0), 0)
    # The host at b is lost, and its next one has taken over the life at a, which has gone on.
    later = life_from(3_000, empty=False)
    streams.take("b", Frame("c", "C", "d", 9_000, [], number=1, life=later, base=9_000), 0)
    streams.unavailable("b", Unavailable("c", "d", 0, life=one, base=0, ended=(2, 9_000)), 0)
    (missing,) = [each for each in streams.due("d", STEP * 10)["b"] if each.life == one]
    assert (missing.begin, missing.end) in ((1, 2), (1, None))
    event = CompositeEvent("C", 8_000, 8_000, "d", 1, {}, constituents=())
    frames, reached = streams.take("b", Frame("c", "C", "d", 8_000, [event], number=1, life=one), 0)
    assert [each.events for each in frames] == [[event]] and reached == 9_000 and streams.take_losses() == []


def test_unknown_position_is_requested_once_the_home_before_is_lost() -> None:
    first, second = life_from(10, empty=False), life_from(20, empty=False)
    streams = Streams(("a",))
    streams.begin("a", first, 1, STEP)
    streams.want(("b",))
    streams.begin("b", 0, None, STEP)
    quiet = Frame("c", "C", "d", 2 * STEP, [], number=3, life=second, base=STEP)
    streams.take("b", quiet, 2 * STEP)
    streams.lost("a")
    assert streams.trusted == {"b"} and not streams.complete
    # A message of unknown position does not end that.
    streams.take("b", quiet, 3 * STEP)
    assert not streams.complete
    assert MissingMessages("c", "d", 0, 0, life=second) in streams.due("d", 4 * STEP)["b"]
