"""How a replay is cut, and why."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

import itertools
from pathlib import Path
from textwrap import dedent

from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware.history.history_file import HistoryFile
from distced.middleware.history.layout import FileNote
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import DAY, HOUR, INSTANT_MIN, MINUTE, SECOND
from distced.simulations.replay.pattern_properties import groups_of, key_of_group, longest, reach_of
from distced.simulations.replay.plan import plan_of, together

BOUNDED = [
    ("[A]", 0),
    ("[A] | [B]", 0),
    ("[A] ; [B]", None),
    ("[A]* [B]", None),
    ("([A] ; [B]) within 5s", 5 * SECOND),
    ("(([A] ; [B]) within 5s) within 2s", 2 * SECOND),
    ("[A] ; ([B] ; [C] within 5s)", None),
    # It depends on everything from the beginning on.
    ("once ([A] ; [B]) within 5s", None),
    ("([A] ; [B]) within 5s settled", 5 * SECOND),
    ("([A as a] ; [B]) within 5s -> X() take first a", 5 * SECOND),
    ("([A as a] ; [B]) within 5s -> X() consuming", None),
    ("([A as a] ; [B]) within 5s -> X() at most 1 per 1s", None),
    # A time event in the domain ends the wait, whatever comes.
    ("([A], [T <= {T, B}]) @ T=5min", 5 * MINUTE),
    ("([A], [T]) @ T=5min", 5 * MINUTE),
    ("([A], [T <= {T, B}]) @ T=at 19:00", DAY + HOUR),
    ("([A], [B <= {B}] | [T]) @ T=5min", 5 * MINUTE),
    # Here an instance may wait for A before it is set off, or for C afterwards.
    ("([A] ; [B], [T <= {T, B}]) @ T=5min", None),
    ("(([A], [T <= {T, B}]) @ T=5min) ; [C]", None),
    ("([A] & [B]) within 5s", 5 * SECOND),
    # A side that lasts too long ends what began on the other side.
    ("([A] ; [B]) & [C] within 5s", None),
    ("([A] ; [B] within 3s) & [C] within 5s", 8 * SECOND),
]


@pytest.mark.parametrize(("text", "expected"), BOUNDED)
def test_reach_is_the_longest_match(text: str, expected: int | None) -> None:
    assert longest(compile_pattern(text).automaton) == expected


def of_file(text: str) -> tuple[Compiled, ...]:
    return compile_source(PatternSource(dedent(text).strip(), "patterns"), None).compiled


def test_readers_reach_as_far_as_what_they_read() -> None:
    patterns = of_file(
        """
        [A] ; [B] within 5s -> First()
        [First] ; [C] within 2s -> Second()
        [Second] ; [D] within 1s -> Third()
        """
    )
    assert reach_of(patterns[:1]) == 5 * SECOND
    assert reach_of(patterns[:2]) == 7 * SECOND
    assert reach_of(patterns) == 8 * SECOND
    assert reach_of([*patterns, *of_file("[A] ; [B]")]) is None


def test_events_without_constituents_have_no_bound() -> None:
    patterns = of_file("[A] | ~[B] -> Any()\n[Any] ; [B] within 5s -> P()")
    assert reach_of(patterns[:1]) == 0
    assert reach_of(patterns) is None


def test_interval_of_a_throttled_type_adds_to_reach() -> None:
    (pattern,) = of_file("type Seen = A every 1min\n[Seen] ; [B] within 5s -> P()")
    assert reach_of([pattern]) == MINUTE + 5 * SECOND


def test_intervals_of_throttled_types_that_build_on_one_another_add_up() -> None:
    (pattern,) = of_file("type S = A every 1min\ntype R = S every 2min\n[R] ; [B] within 5s -> P()")
    assert reach_of([pattern]) == 3 * MINUTE + 5 * SECOND


def test_window_of_a_type_is_added() -> None:
    (pattern,) = of_file("type W = A with (n = count() over 1min)\n[W] ; [B] within 5s -> P()")
    assert reach_of([pattern]) == 65 * 10**9


def test_state_has_no_bound_and_is_replayed_in_one_piece() -> None:
    (pattern,) = of_file("type S = last A\n[B where v > last(S.v)] ; [C] within 5s -> P()")
    assert reach_of([pattern]) is None
    (group,) = plan_of([pattern], files(4, 500_000), cores=16, until=4 * DAY).groups
    assert group.way == "whole"
    assert "the last value of a type may be of any age" in group.why


def test_quiet_type_has_no_bound() -> None:
    (pattern,) = of_file("type Q = A at most 1 per 1min\n[Q] ; [B] within 5s -> P()")
    assert reach_of([pattern]) is None


def test_repeated_detection_reaches_back_to_the_first() -> None:
    patterns = of_file(
        """
        [X as x] ; [A] ; [B where v == x.v] within 5s -> P()
        ~[X as x] ; [A] ; ~[B where v == x.v] within 5s -> Again()
        ([P], [T <= {T, C}]) @ T=3s -> Q()
        ([Again], [T <= {T, C}]) @ T=3s -> R()
        """
    )
    assert reach_of((patterns[0], patterns[2])) == 8 * SECOND
    assert reach_of((patterns[1], patterns[3])) == 13 * SECOND


def test_patterns_that_read_one_another_stay_together() -> None:
    patterns = of_file(
        """
        [A] ; [B] -> First()
        [C] ; [D] -> Other()
        [First] ; [C] -> Second()
        [D] -> Third()
        [Third] ; [Second] -> Fourth()
        """
    )
    assert groups_of(patterns) == [[0, 2, 3, 4], [1]]


KEYED = [
    ("[A] ; [B] by k", ("k",), ""),
    ("[A] ; [B] by (k, j)", ("k", "j"), ""),
    ("[A] ; [B]", (), "the pattern has no key"),
    ("[A] ; ([B] ; [C] by k)", (), "the pattern has no key"),
    ("[A as x] ; [B] by (k, j) -> P(k = x.k)\n[P] ; [C] by k -> Q()", ("k",), ""),
    ("[A as x] ; [B] by (k, j) -> P(k = x.k)\n[P] ; [C] by (j, k) -> Q()", ("k",), ""),
    ("[A as x] ; [B] by k -> P(k = x.j)\n[P] ; [C] by k -> Q()", (), "P does not carry k"),
    ("[A as x] ; [B] by k -> P(k = x.k + 1)\n[P] ; [C] by k -> Q()", (), "P does not carry k"),
    ("[A as x] by k -> P(k = x.j)\n[B as y] by k -> P(k = y.k)\n[P] ; [C] by k -> Q()", (), "P does not carry k"),
    ("[A as x] ; [B] by k -> P(k = x.k)\n[P] ; [C] by j -> Q()", (), "the patterns have no key in common"),
    ("type S = A every 1min by k\n[S] ; [B] by k -> P()", ("k",), ""),
    ("type S = A every 1min by j\n[S] ; [B] by k -> P()", (), "A is throttled, and not by k"),
    ("type S = A at most 1 per 1min by k\n[S] ; [B] by k -> P()", ("k",), ""),
    ("type S = A with (n = count() over 1min) by k\n[S where n > 2] ; [B] by k -> P()", ("k",), ""),
    (
        "type S = A with (n = count() over 1min)\n[S where n > 2] ; [B] by k -> P()",
        (),
        "A is aggregated over a window, and not by k",
    ),
    ("type S = A at most 1 per 1min\n[S] ; [B] by k -> P()", (), "A is throttled, and not by k"),
    ("type S = last A by k\n[B where v > last(S.v, k)] ; [C] by k -> P()", ("k",), ""),
    ("type S = last A by (j, k)\n[B where v > last(S.v, 1, k)] ; [C] by (j, k) -> P()", ("k",), ""),
    (
        "type S = last A by k\n[B where v > last(S.v, j)] ; [C] by k -> P()",
        (),
        "last(S.v, j) is not kept and read by k",
    ),
    ("type S = last A\n[B where v > last(S.v)] ; [C] by k -> P()", (), "last(S.v) is not kept and read by k"),
    ("type S = last A by (k, j)\n[B where all(S.v > 1, k)] ; [C] by k -> P()", ("k",), ""),
    ("type S = last A by k\n[B where count(S) > 1] ; [C] by k -> P()", (), "count(S) is not kept and read by k"),
    (
        "[A as x] ; [B] by k -> P(k = x.j)\ntype S = last P by k\n[B where last(S.k, k) == 1] ; [C] by k -> Q()",
        (),
        "P does not carry k",
    ),
    ("type S = A with (k = floor(hi() / 1h))\n[S] ; [B] by k -> P()", (), "the key k is computed"),
    ("type S = A with (k = floor(hi() / 1h))\n[S] ; [B] by (k, j) -> P()", ("j",), ""),
    ("type S = A with (k = j)\ntype R = B with (k = j)\n[S] ; [R] by k -> P()", ("j",), ""),
]


@pytest.mark.parametrize(("text", "expected", "why"), KEYED)
def test_key_of_a_group_separates_its_events(text: str, expected: tuple[str, ...], why: str) -> None:
    assert key_of_group(of_file(text)) == (expected, why)


def test_patterns_cut_alike_are_one_group() -> None:
    patterns = of_file(
        """
        [A] ; [B] by (k, j) -> P()
        [A] ; [C] within 5s -> Q()
        [A] ; [C] by j -> R()
        [A] ; [D] -> S()
        [B] ; [D] within 1s -> T()
        [B] ; [E] -> U()
        [B] ; [E] by i -> V()
        """
    )
    assert together(patterns) == [[0, 2], [6], [1, 4], [3], [5]]
    assert together(patterns[:1], "k") == [[0]]


def files(days: int, rows: int, types: str = "AB") -> list[HistoryFile]:
    return [
        HistoryFile(
            Path(f"{day}{name}"), f"1970-01-{day + 1:02}", name, rows, 10 * rows, event_type(name),
            FileNote(day * DAY, day * DAY, (day + 1) * DAY - 1, None, {}, "test"),
        )
        for day in range(days)
        for name in types
    ]  # fmt: skip


def test_slices_have_equal_numbers_of_events() -> None:
    plan = plan_of([compile_pattern("[A] ; [B] within 1h")], files(4, 50_000), cores=2, until=4 * DAY, least=10_000)
    (group,) = plan.groups
    assert (group.way, group.events, group.tasks) == ("time", 400_000, 8)
    assert group.why == "the pattern has no key, and no match lasts longer than 1h"
    slices = group.slices
    assert (slices[0].begin, slices[0].after, slices[-1].until) == (INSTANT_MIN, INSTANT_MIN, 4 * DAY)
    for one, other in itertools.pairwise(slices):
        assert other.after == one.until
        assert other.begin == other.after - HOUR
        assert abs(one.until % (DAY // 2)) in (0, 1, DAY // 2 - 1)


def test_slices_are_longer_than_their_lead() -> None:
    def tasks(window: str) -> tuple[str, int]:
        pattern = compile_pattern(f"[A] ; [B] within {window}")
        (group,) = plan_of([pattern], files(4, 500_000), cores=16, until=4 * DAY).groups
        return group.way, group.tasks

    assert tasks("1min") == ("time", 40)
    assert tasks("1h") == ("time", 23)
    assert tasks("6h") == ("time", 3)
    assert tasks("2d") == ("whole", 1)


def test_unread_types_do_not_count() -> None:
    (group,) = plan_of([compile_pattern("[A] ; [C] by k")], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert (group.way, group.events, group.slots) == ("key", 800_000, 8)
    (group,) = plan_of([compile_pattern("[A] ; [any] by k")], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert group.events == 1_600_000


def test_few_events_are_one_task_unless_a_key_is_given() -> None:
    pattern = compile_pattern("[A] ; [B] by k within 5s")
    (group,) = plan_of([pattern], files(1, 1000), cores=4, until=DAY).groups
    assert (group.way, group.tasks) == ("whole", 1)
    (group,) = plan_of([pattern], files(1, 1000), cores=4, until=DAY, by="k").groups
    assert (group.way, group.by) == ("key", ("k",))
    with pytest.raises(DistcedError, match="cannot be replayed by this key: j"):
        plan_of([pattern], files(1, 1000), cores=4, until=DAY, by="j")


def test_once_is_replayed_by_key_or_in_one_piece() -> None:
    keyed, other = compile_pattern("once [A] ; [B] by k within 5s"), compile_pattern("once [A] ; [B] within 5s")
    (group,) = plan_of([keyed], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert (group.way, group.by, len(group.slices)) == ("key", ("k",), 1)
    (group,) = plan_of([other], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert (group.way, group.tasks) == ("whole", 1)
    assert "`once` counts from the beginning" in group.why
    with pytest.raises(DistcedError, match="cannot be replayed in this way: time"):
        plan_of([other], files(2, 400_000), cores=4, until=2 * DAY, way="time")


def test_consumption_is_replayed_by_key_or_in_one_piece() -> None:
    text = "[A as a] ; [B] within 5s -> X() take first a consuming"
    keyed, other = compile_pattern(text.replace(" within", " by k within")), compile_pattern(text)
    (group,) = plan_of([keyed], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert (group.way, group.by, len(group.slices)) == ("key", ("k",), 1)
    (group,) = plan_of([other], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert (group.way, group.tasks) == ("whole", 1)
    assert "what is consumed depends on all before" in group.why
    for way in ("time", "parts"):
        with pytest.raises(DistcedError, match=f"cannot be replayed in this way: {way}"):
            plan_of([other], files(2, 400_000), cores=4, until=2 * DAY, way=way)


@pytest.mark.parametrize("quiet", ["X(k = k) at most 1 per 1s by k", "X(k = b.k, v = a.v) at most 1 per 1s by (v, k)"])
def test_quiet_times_by_the_key_are_replayed_by_it(quiet: str) -> None:
    pattern = compile_pattern(f"[A as a] ; [B as b] by k within 5s -> {quiet}")
    (group,) = plan_of([pattern], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert (group.way, group.by, len(group.slices)) == ("key", ("k",), 1)


@pytest.mark.parametrize("quiet", ["X() at most 1 per 1s", "X(k = a.v, v = 1) at most 1 per 1s by (k, v)"])
def test_other_quiet_times_are_replayed_in_one_piece(quiet: str) -> None:
    patterns = of_file(f"[A as a] by k within 5s -> {quiet}\n[X] by k within 5s -> Y()")
    keyed = patterns[:1]
    assert key_of_group(keyed) == ((), "X is emitted at most once in a time, and not by k")
    (group,) = plan_of(keyed, files(2, 400_000), cores=4, until=2 * DAY).groups
    assert (group.way, group.tasks) == ("whole", 1)
    assert "`at most` depends on what has passed before" in group.why
    assert key_of_group(patterns)[0] == ()
    assert reach_of(patterns[1:]) == 5 * SECOND and reach_of(patterns) is None


def test_quiet_time_of_a_private_publication() -> None:
    private = "private [A as a] by k -> P(k = a.k) at most 1 per 1s{} : [P] ; [B] by k within 5s"
    assert key_of_group([compile_pattern(private.format(" by k"))])[0] == ("k",)
    pattern = compile_pattern(private.format(""))
    assert key_of_group([pattern]) == ((), "P is emitted at most once in a time, and not by k")
    assert reach_of([pattern]) is None


def test_selection_is_replayed_by_slices() -> None:
    pattern = compile_pattern("[A as a] ; [B] within 5s -> X() take first a")
    (group,) = plan_of([pattern], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert group.way == "time"
    assert len(group.slices) > 1


def test_calculated_delays_are_replayed_by_slices_within_a_window_alone() -> None:
    text = "([A as a], [T <= {T, B}]) @ T = a.v * 1s"
    bounded, other = compile_pattern(f"{text} within 5s"), compile_pattern(text)
    (group,) = plan_of([bounded], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert group.way == "time"
    (group,) = plan_of([other], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert (group.way, group.tasks) == ("whole", 1)
    assert "nothing bounds how long a match may last" in group.why
    with pytest.raises(DistcedError, match="cannot be replayed in this way: time"):
        plan_of([other], files(2, 400_000), cores=4, until=2 * DAY, way="time")


def test_settled_is_replayed_by_slices() -> None:
    pattern = compile_pattern("([A] ; [B]) within 5s settled")
    (group,) = plan_of([pattern], files(2, 400_000), cores=4, until=2 * DAY).groups
    assert group.way == "time"
    assert len(group.slices) > 1


def test_replay_of_no_events_is_planned() -> None:
    (group,) = plan_of([compile_pattern("[A] ; [B] within 5s")], [], cores=4, until=0).groups
    assert (group.way, group.events, group.tasks) == ("whole", 0, 1)
