"""A graph of detectors in one process: what is delivered, in what order, and what is given up."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.canonical.form import canonical_form
from distced.detectors.compiler import Compiled, compile_file, compile_pattern
from distced.detectors.cutting.candidates import Candidate, candidates
from distced.detectors.cutting.cut import ChosenCut, DetectorGraph, cut, full, none
from distced.detectors.runtime.detector import Detector
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns.printer import format_pattern
from distced.policies.detection.guaranteed import Guaranteed
from distced.policies.local_runner import LocalRunner


def event(type_name: str, hi: int, seq: int, lo: int | None = None, **attributes: object) -> Event:
    return Event(type_name, hi if lo is None else lo, hi, "s", seq, attributes)  # type: ignore[arg-type]


def cut_out(pattern: Compiled, part: str) -> DetectorGraph:
    """The pattern with one sub-pattern cut out of it."""
    form = canonical_form(pattern.plain)
    (wanted,) = [each for each in candidates(form.publication) if format_pattern(each.pattern) == part]
    once = iter([[ChosenCut(wanted)]])
    return cut([pattern], lambda _, __: next(once, []))


def part_and_whole(pattern: str, part: str) -> tuple[Detector, Detector]:
    """The detectors of a part and of the pattern around it, fresh."""
    graph = cut_out(compile_pattern(pattern), part)
    inner, outer = graph.plans.values()
    return (
        Detector(inner.compiled, Guaranteed(), derivations=True),
        Detector(outer.compiled, Guaranteed()),
    )


def consume(detector: Detector, events: list[Event], watermark: int, source: str = "s") -> list[CompositeEvent]:
    return detector.receive(source, events, watermark, 0).events


def test_record_says_where_match_began_and_ended_and_what_went_before() -> None:
    inner, _ = part_and_whole("[X] ; ([A <= {A, B}] ; [C])", "[A <= {A, B}] ; [C]")
    found = consume(
        inner, [event("B", 2, 0, lo=1), event("B", 3, 1, lo=0), event("A", 5, 2), event("C", 9, 3, lo=7)], 20
    )
    (derivation,) = found[0].derivations
    assert derivation.first == (5, 5, 0, "s", 2)
    assert derivation.last == (9, 7, 0, "s", 3)
    assert derivation.lo == 5
    assert derivation.gap.previous == (3, 0, 0, "s", 1)
    assert derivation.gap.greatest_lo == 1


def test_each_branch_has_its_own_gap() -> None:
    inner, _ = part_and_whole("[X] ; ([A] | [A, B])", "[A] | [A, B]")
    found = consume(inner, [event("B", 2, 0), event("A", 5, 1)], 20)
    by_a = [each for each in found if each.constituents == (("s", 1),)]
    (one,) = by_a
    assert {derivation.gap.previous for derivation in one.derivations} == {None, (2, 2, 0, "s", 0)}


def test_each_key_value_has_its_own_gap() -> None:
    inner, _ = part_and_whole("[X] ; [A] ; [B] by k", "[A] ; [B]")
    events = [event("A", 1, 0, k=1), event("A", 2, 1, k=2), event("A", 3, 2, k=1), event("B", 4, 3, k=1)]
    gaps = {
        derivation.first[0]: (derivation.key, derivation.gap.previous)
        for each in consume(inner, events, 9)
        for derivation in each.derivations
    }
    assert gaps == {1: ((1,), None), 3: ((1,), (1, 1, 0, "s", 0))}


def test_repeated_match_is_marked_again() -> None:
    inner, _ = part_and_whole("[X] ; ([A] ; ~[B])", "[A] ; ~[B]")
    found = consume(inner, [event("A", 1, 0), event("B", 2, 1)], 5) + consume(inner, [event("B", 6, 2)], 9)
    assert [(each.constituents, each.again) for each in found] == [((("s", 0),), False)]


def test_later_derivation_comes_again() -> None:
    inner, _ = part_and_whole("[X] ; ([A] ; ~[B] | [A] ; ~[C])", "[A] ; ~[B] | [A] ; ~[C]")
    found = consume(inner, [event("A", 1, 0), event("B", 2, 1)], 5) + consume(inner, [event("C", 6, 2)], 9)
    assert [(each.again, each.hi, len(each.derivations)) for each in found] == [(False, 2, 1), (True, 6, 1)]


@pytest.mark.parametrize("sign", [" ; ", " "])
@pytest.mark.parametrize(("key", "values"), [("", (1,)), (" by k", (0, 1, 2)), (" by k", (True, 1))])
@pytest.mark.parametrize("lag", [0, 2])
def test_vain_wait_is_given_up(sign: str, key: str, values: tuple[object, ...], lag: int) -> None:
    """A thousand X, and after each an A that is failed by an F: nobody waits for ever."""
    part = f"[A <= {{A, F}}]{sign}[B <= {{B, F}}]"
    inner, outer = part_and_whole(f"[X]{sign}{part}{key}", part)
    outer.join(inner.id, -1, 0)
    most = 0
    late: list[tuple[Event, int]] = []
    for number in range(1000):
        at = 10 * number
        value = values[number % len(values)]
        x, *others = (event(name, at + 2 * place, 3 * number + place, k=value) for place, name in enumerate("XAF"))
        detected = inner.receive("s", others, at + 9, 0)
        # The source of the X may be heard later than the part.
        late.append((x, at + 9))
        if len(late) > lag:
            consume(outer, [late[0][0]], late.pop(0)[1])
        opens = inner.open_gaps()
        outer.hear_open(inner.id, opens, at + 9)
        consume(outer, list(detected.events), at + 9, inner.id)
        most = max(most, outer.engine.live_instances())
    # Without the gaps that are told there would be a thousand.
    assert most <= 3


def test_readers_wait_without_report_of_gaps() -> None:
    inner, outer = part_and_whole("[X] ; [A] ; [B]", "[A] ; [B]")
    outer.join(inner.id, -1, 0)
    for number in range(10):
        consume(outer, [event("X", number, number)], number)
        consume(outer, [], number, inner.id)
    assert outer.engine.live_instances() == 10


def test_open_gaps_are_reported_on_change() -> None:
    inner, _ = part_and_whole("[X] ; [A] ; [B]", "[A] ; [B]")
    assert inner.open_gaps() == []
    consume(inner, [event("A", 1, 0)], 2)
    # The A itself is open, and nothing went before it.
    assert inner.open_gaps() == []
    consume(inner, [event("A", 3, 1)], 4)
    assert inner.open_gaps() == []
    consume(inner, [event("B", 5, 2)], 6)
    (news,) = inner.open_gaps()
    assert (news.key, news.gap.previous, news.gap.greatest_lo) == ((), (3, 3, 0, "s", 1), 3)
    assert inner.open_gaps() == []


def test_prefix_hands_its_gap_upwards() -> None:
    pattern = compile_pattern("[X] ; ([A] ; [B] ; [C])")
    form = canonical_form(pattern.plain)
    chosen: list[list[Candidate]] = []
    for text in ("[A] ; [B] ; [C]", "[A] ; [B]"):
        inside = form.publication if not chosen else canonical_form(compile_pattern("[A];[B];[C]").plain).publication
        chosen.append([each for each in candidates(inside) if format_pattern(each.pattern) == text])
    steps = iter([[ChosenCut(each)] for (each,) in chosen])
    graph = cut([pattern], lambda _, __: next(steps, []))
    assert len(graph.plans) == 3
    runner = LocalRunner(graph, Random(1), over_wire=True)
    runner.run({"s": [event("X", 1, 0), event("A", 2, 1), event("A", 3, 2), event("B", 4, 3), event("C", 5, 4)]})
    # The second A is not the first after X.
    assert [each.constituents for each in runner.composites(graph.roots[0])] == [
        (("s", 0), ("s", 1), ("s", 3), ("s", 4))
    ]


def test_pattern_reads_composite_type_of_another() -> None:
    patterns = compile_file("[A] ; [B] ; [C] -> Seen(n = 1)\n[Seen] ; [D] ; [Seen] -> Twice()\n")
    graph = cut(patterns, full)
    runner = LocalRunner(graph, Random(3))
    notices = [event(name, at, at) for at, name in enumerate("ABCDABC")]
    runner.run({"s": notices})
    assert len(runner.composites(graph.roots[0])) == 2
    assert len(runner.composites(graph.roots[1])) == 1


def test_run_repeats_by_its_seed() -> None:
    graph = cut([compile_pattern("[A] ; [B] ; [C]")], full)
    notices = [event(name, at, at) for at, name in enumerate("ABCABCABC")]
    runs = []
    for _ in range(2):
        runner = LocalRunner(graph, Random(5))
        runner.run({"s": notices[::2], "t": notices[1::2]})
        runs.append((runner.messages, [each.id for each in runner.composites(graph.roots[0])]))
    assert runs[0] == runs[1]


def test_records_from_now_on() -> None:
    """A detector that runs may be asked for derivations: of what has begun nobody knows where, nor what went before
    it."""
    (plan,) = cut([compile_pattern("~[A] ; [B]")], none).plans.values()
    detector = Detector(plan.compiled, Guaranteed())
    consume(detector, [event("A", 1, 0)], 2)
    detector.keep_derivations()
    (found,) = consume(detector, [event("A", 4, 1), event("B", 6, 2)], 9)
    assert (found.lo, [derivation.first[0] for derivation in found.derivations]) == (1, [4])
    assert found.derivations[0].gap.previous == (1, 1, 0, "s", 0)


def test_whether_records_are_kept_is_part_of_state() -> None:
    """A detector that moves may keep derivations where it comes from, or be asked for them where it goes."""
    (plan,) = cut([compile_pattern("[A] ; [B]")], none).plans.values()
    for before, after in ((True, False), (False, True)):
        first = Detector(plan.compiled, Guaranteed(), derivations=before)
        consume(first, [event("A", 1, 0)], 2)
        second = Detector(plan.compiled, Guaranteed(), derivations=after)
        second.resume(first.snapshot())
        third = Detector(plan.compiled, Guaranteed())
        third.resume(second.snapshot())
        (old, new) = consume(third, [event("A", 4, 1), event("B", 6, 2)], 9)
        assert [derivation.gap.previous for derivation in new.derivations] == [(1, 1, 0, "s", 0)]
        assert len(old.derivations) == before


def test_unseen_interval_is_not_taken_for_empty() -> None:
    """The part has consumed an A before it kept derivations: what waits since before then is not answered wrongly."""
    inner, outer = part_and_whole("[X] ; ([A] ; [B] within 1h)", "[A] ; [B] within 1h")
    fresh = Detector(inner.compiled, Guaranteed())
    consume(fresh, [event("A", 70, 1)], 100)
    fresh.keep_derivations()
    outer.join(fresh.id, -1, 0)
    consume(outer, [event("X", 60, 0)], 200)
    found = consume(fresh, [event("A", 110, 2), event("B", 120, 3)], 200)
    assert consume(outer, list(found), 200, fresh.id) == []


def test_ids_that_cannot_recur_are_dropped() -> None:
    """The part may end in something hidden, so its composite events come again, as long as somebody waits for them."""
    inner, outer = part_and_whole(
        "[X] ; ([A <= {A, F}] ; ~[B <= {B, F}] within 1h)", "[A <= {A, F}] ; ~[B <= {B, F}] within 1h"
    )
    outer.join(inner.id, -1, 0)
    for number in range(6000):
        at = 10 * number
        x, *others = (event(name, at + place, 5 * number + place) for place, name in enumerate("XABF"))
        detected = inner.receive("s", others, at + 9, 0)
        consume(outer, [x], at + 9)
        outer.hear_open(inner.id, inner.open_gaps(), at + 9)
        consume(outer, list(detected.events), at + 9, inner.id)
    (unit,) = outer.engine.units
    assert outer.statistics.found == 6000
    assert len(unit.matcher.composites.reported) < 5000
