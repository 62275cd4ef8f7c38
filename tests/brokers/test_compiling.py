"""Large patterns are compiled beside the messages of a node; requests of their clients wait, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from msgspec.structs import replace

from distced.brokers.core.effects import Compile, Effect, Publish
from distced.brokers.node import compiling
from distced.brokers.node.compiling import COSTLY, THREADS, WITHIN, compiled_beside, cost
from distced.brokers.node.node import Node
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answers
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import NO_HINTS, ClientEntry, Hints, SubscriptionEntry
from distced.middleware.wire.topics import directory_topic
from tests.simulations.test_network_faults import check

LARGE = " ; ".join(f"[A where v > {number}]" for number in range(60))
FAULTY = LARGE + " ; [B]"


def compiles(effects: list[Effect]) -> list[Compile]:
    return [each for each in effects if isinstance(each, Compile)]


def answers(effects: list[Effect]) -> dict[str, str]:
    """States of the answers by subscription."""
    messages = [each for each in effects if isinstance(each, Publish) and "/answer/" in each.topic]
    found = [each for one in messages for each in decode(one.payload, Answers, where=one.topic).answers]
    return {each.subscription: each.state for each in found}


class Rig:
    """A node that is alone, with two clients and a type."""

    def __init__(self, **options: Any) -> None:
        self.now = 1_000_000_000_000
        self.node = Node("n1", self.now, validate=True, **options)
        self.loop(self.node.start(self.now))
        self.entry("type", "A", encode(event_type("A", {"v": "number"})))
        for client in ("c1", "c2"):
            self.entry("client", client, encode(ClientEntry(self.now)))

    def loop(self, effects: list[Effect]) -> list[Effect]:
        """Return messages of the node to itself, as a server does."""
        waiting, seen = list(effects), list[Effect]()
        while waiting:
            each = waiting.pop(0)
            seen.append(each)
            if isinstance(each, Publish) and (each.retain or "/known/" in each.topic):
                waiting += self.node.receive(each.topic, each.payload, self.now)
        return seen

    def entry(self, kind: str, name: str, payload: bytes) -> list[Effect]:
        return self.loop(self.node.receive(directory_topic(kind, name), payload, self.now))

    def subscribe(self, name: str, client: str, pattern: str, hints: Hints = NO_HINTS) -> None:
        self.entry("subscription", name, encode(SubscriptionEntry(client, pattern, hints=hints)))

    def translate(self, name: str, text: str, language: str, query: str = "", **more: Any) -> None:
        """Subscribe to a query of a text in another language."""
        entry = SubscriptionEntry("c1", text, language=language, query=query, **more)
        self.entry("subscription", name, encode(entry))

    def serve(self) -> list[Effect]:
        return self.loop(self.node.serve(self.now))


@pytest.fixture
def rig() -> Iterator[Rig]:
    yield Rig()


def test_cost_counts_repetitions() -> None:
    assert cost(SubscriptionEntry("c", "[A]")) == 3
    assert cost(SubscriptionEntry("c", "[A]{3,900}")) == 9_000 and cost(SubscriptionEntry("c", LARGE)) > COSTLY
    assert cost(SubscriptionEntry("c", "[X]", {"X": "([A]{10}){60}"})) > COSTLY


def test_requests_wait_for_a_large_pattern_of_their_client(rig: Rig) -> None:
    rig.subscribe("large", "c1", LARGE)
    rig.subscribe("behind", "c1", "[A where v > 1]")
    rig.subscribe("other", "c2", "[A where v > 2]")
    effects = rig.serve()
    (order,) = compiles(effects)
    assert answers(effects) == {"other": "offered"} and rig.node.waiting == 0
    cache = compiled_beside(order)
    effects = [*rig.loop(rig.node.compiled(order, cache, rig.now)), *rig.serve()]
    assert answers(effects) == {"large": "offered", "behind": "offered"} and not compiles(effects)
    # Once compiled it is known.
    rig.subscribe("again", "c2", LARGE)
    effects = rig.serve()
    assert answers(effects) == {"again": "offered"} and not compiles(effects)


def test_one_is_compiled_at_a_time_and_for_all_its_clients(rig: Rig) -> None:
    rig.subscribe("one", "c1", LARGE)
    rig.subscribe("same", "c2", LARGE)
    (order,) = compiles(rig.serve())
    effects = [*rig.node.compiled(order, compiled_beside(order), rig.now), *rig.serve()]
    assert answers(effects) == {"one": "offered", "same": "offered"} and not compiles(effects)


def test_faulty_pattern_is_refused_once_compiled(rig: Rig) -> None:
    rig.subscribe("faulty", "c1", FAULTY)
    (order,) = compiles(rig.serve())
    effects = [*rig.node.compiled(order, compiled_beside(order), rig.now), *rig.serve()]
    assert answers(effects) == {"faulty": "refused"} and not compiles(effects)
    # The type that it lacks is registered meanwhile.
    rig.entry("type", "B", encode(event_type("B", {"v": "number"})))
    rig.subscribe("later", "c2", FAULTY)
    assert len(compiles(rig.serve())) == 1


def test_pattern_that_takes_too_long_is_refused(rig: Rig) -> None:
    rig.subscribe("slow", "c1", LARGE)
    (order,) = compiles(rig.serve())
    rig.now += WITHIN
    effects = [*rig.node.tick(rig.now), *rig.serve()]
    assert answers(effects) == {"slow": "refused"}
    rig.node.compiled(order, compiled_beside(order), rig.now)
    rig.subscribe("later", "c2", LARGE)
    assert answers(rig.serve()) == {"later": "offered"}


def test_patterns_behind_late_ones_are_given_only_where_a_thread_is_free(rig: Rig) -> None:
    late: list[Compile] = []
    for number in range(THREADS):
        rig.subscribe(f"slow{number}", "c1", f"{LARGE} ; [A where v > {number}]")
        late += compiles(rig.serve())
        rig.now += WITHIN
        assert answers([*rig.loop(rig.node.tick(rig.now)), *rig.serve()]) == {f"slow{number}": "refused"}
    assert len(late) == THREADS
    rig.subscribe("behind", "c2", LARGE)
    for _ in range(3):
        rig.now += WITHIN
        effects = [*rig.loop(rig.node.tick(rig.now)), *rig.serve()]
        assert not compiles(effects) and answers(effects) == {}
    # One of them ends, and its thread is free.
    (order,) = compiles(rig.loop(rig.node.compiled(late[1], compiled_beside(late[1]), rig.now)))
    rig.now += WITHIN - 1
    assert answers([*rig.loop(rig.node.tick(rig.now)), *rig.serve()]) == {}
    effects = [*rig.loop(rig.node.compiled(order, compiled_beside(order), rig.now)), *rig.serve()]
    assert answers(effects) == {"behind": "offered"}


def test_pattern_that_fails_with_any_exception_is_refused_with_its_name(rig: Rig) -> None:
    rig.subscribe("faulty", "c1", LARGE)
    (order,) = compiles(rig.serve())
    # A defect of the compiler would look like that.
    broken: Any = None
    cache = compiled_beside(replace(order, types=broken))
    with pytest.raises(DistcedError, match=r"cannot be compiled, AttributeError: .*: .A where v > 0"):
        cache.check(LARGE, {}, "ordered", rig.node.directory.registry())
    effects = [*rig.loop(rig.node.compiled(order, cache, rig.now)), *rig.serve()]
    assert answers(effects) == {"faulty": "refused"}


def test_short_text_in_another_language_is_compiled_beside_with_its_core_pattern(rig: Rig) -> None:
    rig.translate("orders", "Q: Q EVENT_PATTERN ALL(A a, A b, A c, A d, A e)", "cedr")
    effects = rig.serve()
    (order,) = compiles(effects)
    assert answers(effects) == {}
    effects = rig.loop(rig.node.compiled(order, compiled_beside(order), rig.now))
    checked = rig.node.admission.planner.patterns.checked
    effects += rig.serve()
    assert answers(effects) == {"orders": "offered"}
    assert rig.node.admission.planner.patterns.checked == checked > 0


def served(rig: Rig) -> list[Effect]:
    """Effects of the requests that wait, each pattern compiled when it is given to the driver."""
    effects = rig.serve()
    waiting = compiles(effects)
    while waiting:
        order = waiting.pop(0)
        more = [*rig.loop(rig.node.compiled(order, compiled_beside(order), rig.now)), *rig.serve()]
        waiting += compiles(more)
        effects += more
    return effects


def test_text_is_checked_once_for_all_of_its_queries(rig: Rig) -> None:
    text = "\n".join(f"SELECT v FROM FILTER{{v > {number}}} A PUBLISH Q{number}" for number in range(5))
    checks = rig.node.admission.planner.patterns.texts
    for number in range(3):
        rig.translate(f"s{number}", text, "cel", f"Q{number}")
    assert set(answers(served(rig)).values()) == {"offered"} and checks.checked == 1
    # One at a time, each with types that those before publish.
    for number in (3, 4, 0):
        rig.translate(f"t{number}", text, "cel", f"Q{number}")
        assert answers(served(rig)) == {f"t{number}": "offered"}
    assert checks.checked == 1


def test_text_is_checked_again_when_a_type_changes_between_two_queries(rig: Rig) -> None:
    text = "SELECT v FROM A PUBLISH P SELECT v + 1 AS w FROM A PUBLISH Q"
    checks = rig.node.admission.planner.patterns.texts
    rig.translate("p", text, "cel", "P")
    assert answers(served(rig)) == {"p": "offered"}
    rig.entry("type", "A", encode(event_type("A", {"v": "string"})))
    rig.translate("q", text, "cel", "Q")
    effects = served(rig)
    assert answers(effects) == {"q": "refused"} and checks.checked == 2
    rig.entry("type", "A", encode(event_type("A", {"v": "number"})))
    rig.translate("r", text, "cel", "Q")
    assert answers(served(rig)) == {"r": "offered"} and checks.checked == 3


def test_error_of_a_text_is_that_of_each_query(rig: Rig) -> None:
    text = "SELECT v FROM A PUBLISH P SELECT w FROM A PUBLISH Q"
    for name in "PQ":
        rig.translate(name, text, "cel", name)
    effects = served(rig)
    assert answers(effects) == {"P": "refused", "Q": "refused"}
    found = [each for each in effects if isinstance(each, Publish) and "/answer/" in each.topic]
    texts = [str(each) for one in found for each in decode(one.payload, Answers, where=one.topic).answers]
    assert len(texts) == 2 and all("no attribute w" in each and "line 1, column 34" in each for each in texts)
    assert rig.node.admission.planner.patterns.texts.checked == 1


@pytest.mark.parametrize("text", ["SELECT v FROM A", "SELECT v FROM A " * 60])
@pytest.mark.parametrize(
    ("language", "more", "problem"),
    [
        ("cobol", {}, "unknown language of a pattern: cobol"),
        ("\0", {}, "unknown language of a pattern"),
        ("cel", {"query": "Q"}, "no query of this name: Q"),
        ("", {"query": "Q"}, "a query of a pattern in the core language: Q"),
        ("core", {"query": "Q"}, "a query of a pattern in the core language: Q"),
        ("cel", {"definitions": {"X": "[A]"}}, "definitions beside a pattern in another language: X"),
    ],
)
def test_wrong_language_or_query_is_refused(
    rig: Rig, text: str, language: str, more: dict[str, Any], problem: str
) -> None:
    rig.translate("wrong", text, language, **more)
    effects = rig.serve()
    for order in compiles(effects):
        effects += [*rig.loop(rig.node.compiled(order, compiled_beside(order), rig.now)), *rig.serve()]
    found = [each for each in effects if isinstance(each, Publish) and "/answer/" in each.topic]
    (answer,) = (each for one in found for each in decode(one.payload, Answers, where=one.topic).answers)
    assert answer.state == "refused"
    assert problem in str(answer)


def test_entry_that_is_cleared_meanwhile_is_not_served(rig: Rig) -> None:
    rig.subscribe("large", "c1", LARGE)
    (order,) = compiles(rig.serve())
    rig.entry("subscription", "large", b"")
    effects = [*rig.node.compiled(order, compiled_beside(order), rig.now), *rig.serve()]
    assert answers(effects) == {} and not rig.node.hosted


NOT_YET: Final = (60_958, 61_010, 61_342, 61_474)
"""Seeds with which composite events once were missing: four parts, and theirs, were still compiled as events came."""


@pytest.mark.slow
def test_nothing_is_lost_while_patterns_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """In virtual time each takes up to two seconds, amid faults; each part that a detector delegates is one more."""
    monkeypatch.setattr(compiling, "COSTLY", 1)
    counts = [check(seed, checkpoints=True, earlier=30 * SECOND) for seed in (*range(60_000, 60_036), *NOT_YET)]
    assert sum(each["found"] for each in counts) > 100
    assert all(each["missing"] == each["wrong"] == each["losses"] == 0 for each in counts)
