"""What subscriptions get from nodes is what the patterns find in the events, whatever happens on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from random import Random

import pytest

from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import EventType, TypeRegistry, event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.patterns.printer import format_publication
from distced.middleware.patterns.tree import Output, Publication
from distced.middleware.sets.expressions import Literal
from tests.support.engine_switches import by_chance
from tests.support.event_streams import END, Message, comparable, messages, spread
from tests.support.random_patterns import TYPES, PatternMaker, with_clocks, with_privates
from tests.support.states import STATE_TYPES, reading_states
from tests.support.virtual_nodes import Network, VirtualClient, delivering

KINDS = [event_type(name, {"k": "number", "v": "number"}) for name in TYPES]


def _private(random: Random) -> Publication:
    while not (made := with_privates(random, random.randrange(1, 5))).privates:
        pass
    return made


def _plain(random: Random) -> Publication:
    return PatternMaker(random).publication(random.randrange(1, 7))


def _clocked(random: Random) -> Publication:
    return with_clocks(random, random.randrange(1, 5))


def _pattern(
    random: Random,
    name: str,
    registry: TypeRegistry,
    make: Callable[[Random], Publication] = _plain,
    reads: str | None = None,
) -> Compiled:
    """A random pattern that publishes a type of this name, and perhaps reads what another publishes."""
    while True:
        made = make(random)
        output = made.output or Output(name, (("one", Literal(1)),))
        text = format_publication(replace(made, output=replace(output, type_name=name)))
        if reads is not None:
            if "[A]" not in text:
                continue
            text = text.replace("[A]", f"[{reads}]", 1)
        try:
            compiled = compile_pattern(text, registry, consumption=random.choice(("ordered", "ordered", "epoch")))
        except PatternError:
            continue
        registry.register(compiled.publishes)
        return compiled


def _send(client: VirtualClient, message: Message) -> None:
    groups = [list(group) for _, group in groupby(message.events, key=lambda event: event.type)]
    for place, group in enumerate(groups):
        client.publish(*group, watermark=message.watermark if place == len(groups) - 1 else None)
    if message.watermark is not None:
        client.heartbeat(message.watermark, message.source)


@pytest.mark.slow
@pytest.mark.parametrize("switching", [False, True], ids=["stepwise", "any engine"])
def test_composite_events_do_not_depend_on_nodes_or_order_of_arrival(switching: bool, at_length: bool) -> None:
    if switching:
        pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    # In the last one a side of a `&` reads `any`, and the other the composite events.
    counts = _counts((*range(1_000 if at_length else 42), 628), _plain, switching=switching)
    assert counts["found"] > 60
    assert counts["read"] > 1
    assert counts["cut"] > 8
    assert counts["columnar"] > 12 if switching else counts["columnar"] == 0


@pytest.mark.slow
def test_composite_events_of_private_publications_do_not_depend_on_nodes(at_length: bool) -> None:
    counts = _counts(range(500 if at_length else 30), _private, switching=False)
    assert counts["found"] > 30
    assert counts["cut"] > 4


@pytest.mark.slow
def test_composite_events_of_states_do_not_depend_on_nodes(at_length: bool) -> None:
    counts = _counts(range(500 if at_length else 20), reading_states, switching=True, types=STATE_TYPES)
    assert counts["found"] > 10
    assert counts["columnar"] > 2


@pytest.mark.slow
def test_composite_events_of_clocks_do_not_depend_on_nodes(at_length: bool) -> None:
    counts = _counts(range(500 if at_length else 12), _clocked, switching=False)
    assert counts["found"] > 25


def _counts(
    seeds: Iterable[int],
    make: Callable[[Random], Publication],
    *,
    switching: bool,
    types: Sequence[EventType] = (),
) -> Counter[str]:
    """Detect random patterns on nodes; what was found, and how."""
    found = read = cut = columnar = 0
    for seed in seeds:
        random = Random(seed)
        registry = TypeRegistry((*KINDS, *types))
        first = _pattern(random, "Out0", registry, make)
        patterns = [first, _pattern(random, "Out1", registry, make)]
        patterns.append(_pattern(random, "Out2", registry, make, reads="Out0"))
        sources = random.randrange(1, 4)
        events = spread(random, random.randrange(3, 14), sources)
        streams = [messages(random, events, f"s{number}", shuffled=random.random() < 0.3) for number in range(sources)]

        network = Network(seed, again=random.choice((0.0, 0.3)))
        engines = by_chance(seed) if switching else None
        nodes = [network.node(f"n{number}", engines=engines) for number in range(random.randrange(1, 4))]
        app = network.client("app")
        app.register(*KINDS, *types)
        network.run()
        publishers = [network.client(f"pub{number}") for number in range(sources)]
        for number, publisher in enumerate(publishers):
            publisher.source(f"s{number}", TYPES)
        for number, pattern in enumerate(patterns):
            consumption = "epoch" if pattern.automaton.epochs else "ordered"
            app.subscribe(
                f"q{number}",
                pattern.text,
                consumption=consumption,
                decomposition=random.choice(("none", "full", "full", "for-reuse")),
            )
            network.run()
            assert app.states(f"q{number}")[-1] == "active", app.answers[f"q{number}"]
        for number, publisher in enumerate(publishers):
            assert len(publisher.acknowledged[f"s{number}"]) == len(nodes)

        sends: list[Callable[[], object]] = []
        waiting = [stream for stream in streams if stream]
        while waiting:
            stream = random.choice(waiting)
            message = stream.pop(0)
            sends.append(partial(_send, publishers[int(message.source[1:])], message))
            waiting = [each for each in waiting if each]
        # A node that comes meanwhile changes nothing.
        sends.insert(random.randrange(len(sends)), partial(network.node, "late", engines=engines))
        delivering(network, sends)
        network.pass_time(2 * SECOND)

        engine = StepwiseEngine(patterns)
        expected = engine.feed(events) + engine.advance(END)
        for number, pattern in enumerate(patterns):
            own = [each for each in expected if each.source == pattern.automaton.canonical_id]
            got = app.composites(f"q{number}")
            assert comparable(got) == comparable(own), f"seed {seed}: {pattern.text}"
            assert app.watermarks[f"q{number}"] == END
            found += len(own)
            read += number == 2 and bool(own)
        cut += any(hosted.parts for node in nodes for hosted in node.node.hosted.values())
        columnar += sum(note.fields.get("engine") == "columnar" for note in network.notes)
        assert network.letters == []
    return Counter(found=found, read=read, cut=cut, columnar=columnar)
