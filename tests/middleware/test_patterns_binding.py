"""The Python binding: what its methods write is read as the same tree as the text a person would write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced import simulations
from distced.detectors.compiler import compile_file
from distced.detectors.language.parser import parse_expression, parse_file, parse_publication
from distced.middleware.model.errors import DistcedError, PatternError
from distced.middleware.patterns import (
    EventSet,
    Pattern,
    any_event,
    call,
    count,
    derived_type,
    event,
    hi,
    lo,
    other_than,
    over,
    pattern_file,
    state,
    tree,
    value,
)
from distced.middleware.sets.describable import TypeSet, Union

A, B, C, D = (event(name) for name in "ABCD")
door, person, temp, login = event("Door"), event("Person"), event("Temp"), event("Login")
price = event("P")
first, top = event("Close"), event("Close")

CASES: list[tuple[object, str]] = [
    # Joints
    (A.then(B), "[A] ; [B]"),
    (A.then(B, C), "[A] ; [B] ; [C]"),
    (A.then(B).then(C), "[A] ; [B] ; [C]"),
    (A.then(B.then(C)), "[A] ; ([B] ; [C])"),
    (A.followed_by(B), "[A] [B]"),
    (A.followed_by(B).followed_by(C), "[A] [B] [C]"),
    (A.followed_by(B).then(C), "[A] [B] ; [C]"),
    (A.then(B).followed_by(C), "([A] ; [B]) [C]"),
    (A.after(B), "[B] ; [A]"),
    (A.after(B.repeated(3)), "[B]{3} ; [A]"),
    (A.after(B, C), "[B] ; [C] ; [A]"),
    (A.then("B"), "[A] ; [B]"),
    # Alternation and parallel
    (A | B, "[A] | [B]"),
    (A | B | C, "[A] | [B] | [C]"),
    (A | "B", "[A] | [B]"),
    ("A" | B, "[A] | [B]"),
    (A & B, "[A] & [B]"),
    (A & B & C, "[A] & [B] & [C]"),
    (A & (B & C), "[A] & ([B] & [C])"),
    ("A" & B, "[A] & [B]"),
    ((A | B).then(C), "([A] | [B]) ; [C]"),
    (A & B | C, "[A] & [B] | [C]"),
    (A & (B | C), "[A] & ([B] | [C])"),
    # Aggregates
    (A.any_times().publish("X", n=count(A), mean=call("avg", A.v)), "[A as a]* -> X(n = count(a), mean = avg(a.v))"),
    (A.at_least_once().publish("X", where=count(A) > 2), "[A as a]+ -> X() where count(a) > 2"),
    (A.repeated(2).then(B.where(B.v > call("sum", A.v * 2))), "[A as a]{2} ; [B where v > sum(a.v * 2)]"),
    (price.where(price.v >= call("max", price.v)).any_times(), "[P where (v >= max(p.v)) as p]*"),
    (A.repeated(3).publish("X", v=call("nth", A.v, -2)), "[A as a]{3} -> X(v = nth(a.v, -2))"),
    # Iteration
    (A.repeated(3), "[A]{3}"),
    (A.repeated(2, 5), "[A]{2,5}"),
    (A.at_least(2), "[A]{2,}"),
    (A.at_least_once(), "[A]+"),
    (A.any_times(), "[A]*"),
    (A.optional(), "[A]{0,1}"),
    (A.then(B).at_least_once(), "([A] ; [B])+"),
    (A.any_times().at_least_once(), "[A]*+"),
    ((A | B).any_times(), "([A] | [B])*"),
    # Hiding
    (A.hidden(), "~[A]"),
    (~A, "~[A]"),
    (A.then((~B).any_times(), B), "[A] ; (~[B])* ; [B]"),
    (A.then(B.any_times().hidden().followed_by(B)), "[A] ; ~[B]* [B]"),
    (~A.then(B), "~([A] ; [B])"),
    # Windows and keys
    (A.then(B).within("5s"), "[A] ; [B] within 5s"),
    (A.within(timedelta(minutes=90)).then(B), "([A] within 90min) ; [B]"),
    (A.then(B).by("room"), "[A] ; [B] by room"),
    (A.then(B).by("room", "person").within("1h"), "[A] ; [B] by (room, person) within 1h"),
    (door.then(person.repeated(3)).within("1h"), "[Door] ; [Person]{3} within 1h"),
    # Sets
    (event("A", "B"), "[A, B]"),
    (A.union(B), "[A, B]"),
    (A.union(B, "C"), "[A, B, C]"),
    (A.union(B).union(C), "[{A, B}, C]"),
    (A.intersection(C), "[A & C]"),
    (A.difference(B), "[A - B]"),
    (any_event(), "[any]"),
    (any_event().difference("A"), "[any - A]"),
    (any_event().difference(A.union(B)), "[any - {A, B}]"),
    (any_event().difference(A).difference(B), "[any - A - B]"),
    (A.difference(B.difference(C)), "[A - (B - C)]"),
    (A.intersection(B).intersection(C), "[A & B & C]"),
    (A.intersection(B.intersection(C)), "[A & (B & C)]"),
    (event("any"), "[`any`]"),
    # Domains
    (B.among(B, "P"), "[B <= {B, P}]"),
    (A.among(A.union(B)), "[A <= {A, B}]"),
    (A.among(any_event()), "[A <= any]"),
    (B.without("P"), "[B <= {B, P}]"),
    (B.without("P").without("Q"), "[B <= {B, P, Q}]"),
    (A.union(B).without(C), "[A, B <= {A, B, C}]"),
    (other_than("B").among("A"), "[!B <= A]"),
    (B.followed_by(other_than(B).among(A), B), "[B][!B <= A][B]"),
    (other_than("A", "B").among(any_event()), "[!A, B <= any]"),
    (A.then(B).among(C), "[ [A] ; [B] <= C ]"),
    (A.then(B).without(C, D), "[ [A] ; [B] <= {C, D} ]"),
    (A.within("5s").without(C), "[ [A] within 5s <= C ]"),
    ((A | B).without(C), "[ [A] | [B] <= C ]"),
    # Conditions
    (temp.where(temp.temp < 15), "[Temp where temp < 15]"),
    (temp.where("temp < 15"), "[Temp where temp < 15]"),
    (temp.where(room="FE02"), "[Temp where room == 'FE02']"),
    (temp.where(room="FE02", on=True, note=None), "[Temp where room == 'FE02' and on == true and note == null]"),
    (temp.where(temp.temp < 15).where(room="FE02"), "[Temp where temp < 15 and room == 'FE02']"),
    (temp.where("a < 1 or b < 2", room="x"), "[Temp where (a < 1 or b < 2) and room == 'x']"),
    (temp.where((temp.a < 1) | (temp.b < 2), temp.c == 3), "[Temp where (a < 1 or b < 2) and c == 3]"),
    (temp.where((temp.a < 1) & (temp.b < 2), temp.c == 3), "[Temp where a < 1 and b < 2 and c == 3]"),
    (temp.where(~(temp.a == 1)), "[Temp where not a == 1]"),
    (temp.where(-temp.a + 2 * temp.b >= 3 - temp.c), "[Temp where -a + 2 * b >= 3 - c]"),
    (temp.where(temp.a / 2 % 3 != 1), "[Temp where a / 2 % 3 != 1]"),
    (temp.where(1 < temp.a), "[Temp where a > 1]"),  # noqa: SIM300
    (temp.where(temp["where"] == "it's"), r"[Temp where `where` == 'it\'s']"),
    (temp.where(call("lower", temp.a) == "x"), "[Temp where lower(a) == 'x']"),
    (temp.where(call("hour", "Asia/Tokyo") < 6), "[Temp where hour('Asia/Tokyo') < 6]"),
    (temp.where(call("hour", hi(temp), "Asia/Tokyo") < call("hour")), "[Temp where hour('Asia/Tokyo') < hour()]"),
    (A.publish("X", d=call("date", hi(A)), h=call("hour", A.v)), "[A as a] -> X(d = date(a), h = hour(a.v))"),
    (temp.where(call("minute", temp.at) == 0), "[Temp where minute((at)) == 0]"),
    (temp.where(call("max", temp.a, 3) > 4), "[Temp where max(a, 3) > 4]"),
    (temp.where(hi(temp) - lo(temp) < timedelta(seconds=1)), "[Temp where hi() - lo() < 1s]"),
    (temp.union(door).where(room="x"), "[{Temp, Door} where room == 'x']"),
    (temp.where(temp.a < 1).union(door), "[Temp where a < 1, Door]"),
    (temp.where(temp.a < 1).among(temp, door), "[Temp where (a < 1) <= {Temp, Door}]"),
    (temp.where(temp.a < 1).without("T"), "[Temp where (a < 1) <= {Temp where a < 1, T}]"),
    (temp.where(temp.a == -1.5), "[Temp where a == -1.5]"),
    (temp.where(temp.a < float("inf")), "[Temp where a < inf]"),
    # Events that refer to others
    (door.then(temp.where(temp.room == door.room)), "[Door as door] ; [Temp where room == door.room]"),
    (
        door.then(temp.where((temp.temp < 15) & (temp.room == door.room))),
        "[Door as door] ; [Temp where temp < 15 and room == door.room]",
    ),
    (door.named("d").then(temp.where("room == d.room")), "[Door as d] ; [Temp where room == d.room]"),
    (door.named("d"), "[Door as d]"),
    (door.where(open=True).named("d"), "[Door as d where open == true]"),
    (first.then(top.where(top.close > first.close)), "[Close as close] ; [Close where close > close.close]"),
    (
        door.then(login.among(login.where(login.room == door.room), person)),
        "[Door as door] ; [Login <= {Login where room == door.room, Person}]",
    ),
    (door.then(A.where(A.t > hi(door) + 5)), "[Door as door] ; [A where t > hi(door) + 5]"),
    ((door | person).then(A.where(A.r == door.r)), "([Door as door] | [Person]) ; [A where r == door.r]"),
    # Time events
    (
        A.timeout("5min", lambda t: t.among(t, "B"), name="T"),
        "([A], [T <= {T, B}]) @ T = 5min",
    ),
    (A.timeout("5min", lambda t: t.without("B")), "([A], [T <= {T, B}]) @ T = 5min"),
    (A.unless("B", within="5min"), "([A], [T <= {T, B}]) @ T = 5min"),
    (A.unless("B", C, within=timedelta(hours=2)), "([A], [T <= {T, B, C}]) @ T = 2h"),
    (B.timeout("1h", lambda t: event("P").without(t), name="T"), "([B], [P <= {P, T}]) @ T = 1h"),
    (
        (A | B).timeout("5min", lambda t: C.without(t).then(D)).then(A),
        "([A] | [B], [C <= {C, T}] ; [D]) @ T = 5min ; [A]",
    ),
    (A.timeout(A.v * timedelta(seconds=1), lambda t: t), "([A as a], [T]) @ T = a.v * 1s"),
    (A.unless(B, within=A.v), "([A as a], [T <= {T, B}]) @ T = a.v"),
    (A.timeout("at 19:00", lambda t: t), "([A], [T]) @ T = at 19:00"),
    (A.timeout("at 19:00 'Europe/London'", lambda t: t), "([A], [T]) @ T = at 19:00 'Europe/London'"),
    (A.timeout(time(19), lambda t: t), "([A], [T]) @ T = at 19:00"),
    (A.timeout(time(9, 5, 7, 500), lambda t: t), "([A], [T]) @ T = at 09:05:07.0005"),
    (A.timeout(time(19, tzinfo=ZoneInfo("Europe/London")), lambda t: t), "([A], [T]) @ T = at 19:00 'Europe/London'"),
    (A.timeout(time(19, tzinfo=timezone(timedelta(hours=-5))), lambda t: t), "([A], [T]) @ T = at 19:00-05:00"),
    (A.timeout(datetime(2026, 11, 21, 8, tzinfo=UTC), lambda t: t), "([A], [T]) @ T = at 2026-11-21T08:00Z"),
    (A.timeout("at 2026-11-21T08:00Z", lambda t: t), "([A], [T]) @ T = at 2026-11-21T08:00Z"),
    (
        A.unless("B", within="5s").unless("C", within="7s"),
        "(([A], [T <= {T, B}]) @ T = 5s, [T2 <= {T2, C}]) @ T2 = 7s",
    ),
    (event("T").unless("B", within="5s"), "([T], [T2 <= {T2, B}]) @ T2 = 5s"),
    # Registers
    (
        price.set(n=value("n") + 1, top=call("max", value("top"), price.price)).at_least_once().init(n=0, top=0),
        "init n = 0, top = 0 : [P set n = n + 1, top = max(top, price)]+",
    ),
    (A.where(A.x > value("n")).set(n=A.x).init(n=0).then(B), "(init n = 0 : [A where (x > n) set n = x]) ; [B]"),
    # Output
    (A.publish("X"), "[A] -> X()"),
    (A.publish("X", a=A.x, b=1, c="it"), "[A as a] -> X(a = a.x, b = 1, c = 'it')"),
    (A.publish("X", {"where": A["where"]}), "[A as a] -> X(`where` = a.`where`)"),
    (A.publish("X", n=A.x, where=value("n") > 3), "[A as a] -> X(n = a.x) where n > 3"),
    (A.publish("X", n=A.x, where="n > 3"), "[A as a] -> X(n = a.x) where n > 3"),
    (
        A.publish("X", n=A.x, where=["n > 3 or n < 1", A.y == 2]),
        "[A as a] -> X(n = a.x) where (n > 3 or n < 1) and a.y == 2",
    ),
    (A.by("k").within("5s").publish("X"), "[A] by k within 5s -> X()"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text"), CASES, ids=[text for _, text in CASES])
def test_pattern_is_read_as_the_text_one_would_write(pattern: object, text: str) -> None:
    assert parse_publication(str(pattern)) == parse_publication(text)


def test_binding_writes_scenario_1() -> None:
    """Temperature under 15 degrees in an occupied room, with the type that is derived for it."""
    pers, door, temp = event("Pers"), event("Door"), event("Temp")
    seen = derived_type("Seen", pers, every="1min", by=("person", "room"))
    cold = temp.where(temp.temp < 15)
    occupied = seen | door
    pattern = occupied.timeout("5min", lambda t: cold.without(t)).by("room")
    file = pattern_file(pattern.publish("ColdRoom", room=cold.room, temp=cold.temp))
    assert parse_file(str(file)) == parse_file(
        """
        type Seen = Pers every 1min by (person, room)
        ([Seen] | [Door],
          [Temp where (temp < 15) as temp <= {Temp where temp < 15, T}]) @ T = 5min
          by room
          -> ColdRoom(room = temp.room, temp = temp.temp)
        """
    )


def test_binding_writes_scenario_2() -> None:
    """Written in Python, it is the very pattern of the article's scenario: the same canonical form."""
    board_on, seen, board_off, login = event("BoardOn"), event("Seen"), event("BoardOff"), event("Login")
    jean = seen.where(seen.person == "Jean", seen.room == board_on.room)
    off = board_off.where(board_off.room == board_on.room)
    attended = board_on.followed_by(jean.followed_by(jean.any_times(), off).among(jean, off))
    missed = attended.unless(login.where(person="Jean"), within="5min")
    text = (Path(simulations.__file__).parent / "office/scenarios/scenario2.pattern").read_text(encoding="utf-8")
    written = str(pattern_file(missed.publish("MissedMeeting", room=board_on.room, person="Jean")))
    same = [compile_file(each)[0].automaton.canonical_id for each in (written, text)]
    assert same[0] == same[1]


def test_pattern_file_holds_each_derived_type_once_and_before_it_is_used() -> None:
    cold = derived_type("Cold", temp.where(temp.temp < 15))
    often = derived_type("Often", cold, every="90s", by="room")
    file = parse_file(str(pattern_file(often.then(cold).publish("X"), often, "Door")))
    assert [each.name for each in file.types] == ["Cold", "Often"]
    assert file.types[0].condition == parse_expression("temp < 15")
    assert (file.types[1].base, file.types[1].every, file.types[1].by) == ("Cold", 90 * 10**9, ("room",))
    assert len(file.publications) == 3


def test_states_of_types() -> None:
    inside = state("Inside", temp.where(temp.temp > 0), computed={"half": temp.temp / 2}, by="room")
    outer, both = event("Out"), event("Temp", "Out")
    line = "type Inside = last Temp where temp > 0 with (half = temp / 2) by room\n"
    warm = outer.where(outer.temp > inside.last("temp", outer.room) + 3).publish("Warm", temp=outer.temp)
    shown = "[Out where (temp > last(Inside.temp, room) + 3) as out] -> Warm(temp = out.temp)\n"
    assert str(pattern_file(warm)) == line + shown
    same = both.where(inside.current("half", both.room) == both.temp)
    assert str(pattern_file(same)) == line + "[{Temp, Out} where current(Inside.half, room) == temp]\n"
    # An event has no variable of a state's name, which would hide it.
    mode = state("out", "Mode")
    on = outer.where(mode.last("value") == "on").publish("On", temp=outer.temp)
    assert "[Out where (last(out.value) == 'on') as out2] -> On(temp = out2.temp)" in str(pattern_file(on))
    # States of a derived type are defined before it.
    read = {"mode": mode.last("value"), "was": inside.last("temp", outer.room)}
    computed = derived_type("Outer", outer, computed=read)
    text = str(pattern_file(computed.where(computed.mode == 1).publish("X", was=computed.was)))
    assert "type Outer = Out with (mode = last(out.value), was = last(Inside.temp, room))" in text
    assert [each.name for each in parse_file(text).types] == ["out", "Inside", "Outer"]
    here = state("Here", "Presence", by=("room", "person"))
    away = event("Presence").where(here.all("away", value("room")) & (here.count("away", value("room")) > 1))
    assert "[Presence where all(Here.away, room) and count(Here.away, room) > 1]" in str(pattern_file(away))
    with pytest.raises(PatternError, match=r"kept by room, person: 2 values of a key .allowed: fewer than 2"):
        here.all("away", 1, 2)
    with pytest.raises(PatternError, match="the state Inside is kept by room: 0 values of a key"):
        inside.last("temp")
    with pytest.raises(PatternError, match="a state that is throttled, or has an aggregate"):
        state("Mean", temp, computed={"mean": over(call("avg", temp.temp), "10min")})


def test_computed_attributes_of_a_derived_type() -> None:
    warm = temp.where(temp.temp > 0)
    reading = derived_type(
        "Reading", warm, computed={"hour": call("floor", hi(temp) / 10), "twice": temp.temp * 2}, every="90s", by="hour"
    )
    text = str(pattern_file(reading.where(reading.twice > 3).by("hour").publish("X", t=reading.twice)))
    (derived,) = parse_file(text).types
    assert derived.computed == (("hour", parse_expression("floor(hi() / 10)")), ("twice", parse_expression("temp * 2")))
    assert (derived.every, derived.by, derived.condition) == (90 * 10**9, ("hour",), parse_expression("temp > 0"))
    assert "-> X(t = reading.twice)" in text
    mean = over(call("avg", temp.temp), "10min")
    warmth = derived_type("Warmth", temp, computed={"mean": mean, "above": temp.temp - mean}, by="room")
    text = "type Warmth = Temp with (mean = avg(temp) over 10min, above = temp - avg(temp) over 10min) by room"
    assert text in str(pattern_file(warmth))
    quiet = derived_type("Quiet", temp, at_most_one_per="10min", by=("room", "floor"))
    assert "type Quiet = Temp at most 1 per 10min by (room, floor)" in str(pattern_file(quiet))
    with pytest.raises(PatternError, match="every and at_most_one_per"):
        derived_type("X", A, every="1s", at_most_one_per="1s")
    with pytest.raises(PatternError, match="an event is read that the pattern does not match"):
        derived_type("X", A, computed={"v": event("B").v})


def test_patterns_do_not_change_when_others_are_made_of_them() -> None:
    plain = str(A)
    A.where(x=1).named("q").set(n=1).among("B")
    A.then(B).within("5s")
    assert str(A) == plain == "[A]"


def test_each_event_that_is_read_gets_a_name_of_its_own() -> None:
    one, two, three = event("A"), event("A"), event("A").named("a3")
    pattern = one.then(two, three).publish("X", one=one.x, two=two.x, three=three.x)
    assert str(pattern) == "[A as a] ; [A as a2] ; [A as a3] -> X(one = a.x, two = a2.x, three = a3.x)"


def test_names_do_not_collide_with_types_registers_and_time_events() -> None:
    odd = event("t")
    pattern = odd.timeout("5s", lambda t: t.without("T"), name="t2").init(t3=0).publish("X", x=odd.x)
    assert str(pattern) == "init t3 = 0 : ([t as t4], [t2 <= {t2, T}]) @ t2 = 5s -> X(x = t4.x)"


def test_event_is_found_again_after_it_was_narrowed() -> None:
    cold = temp.where(temp.temp < 15)
    assert str(cold.without("T").publish("X", x=temp.temp)) == str(cold.without("T").publish("X", x=cold.temp))


def test_representation_shows_the_text_even_of_a_part() -> None:
    part = temp.where(temp.room == door.room)
    assert repr(part) == "<EventSet [Temp where room == door.room]>"
    assert repr(A.then(B)) == "<Sequence [A] ; [B]>"
    assert "!A" in repr(other_than("A"))
    assert repr(A.publish("X")) == "<Publication X>"
    seen_timer: list[str] = []
    A.timeout("5s", lambda t: (seen_timer.append(repr(t)), t)[1])
    assert seen_timer == ["<Timer [T]>"]


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: str(temp.where(temp.room == door.room)), "an event is read that the pattern does not match: Door"),
    (lambda: str(A.where(A.x == 1).then(A.where(A.x == 2)).publish("X", x=A.x)), "several events .* are made of"),
    (lambda: bool(temp.temp < 15), "neither true nor false"),
    (lambda: 1 < temp.temp < 15, "neither true nor false"),
    (lambda: temp.temp < 15 and temp.temp > 3, "neither true nor false"),
    (lambda: temp.where(temp.temp < object()), "not a value"),
    (lambda: temp.where(temp.temp < float("nan")), "not a value"),
    (lambda: temp.where(x=2**70), "not a value"),
    (lambda: temp.where("a == 1] ; [B"), "not a condition"),
    (lambda: temp.where("a == 1) or (b"), "parentheses match"),
    (lambda: temp.where("(a == 1"), "parentheses match"),
    (lambda: temp.where("a == 'open"), "not a condition"),
    (lambda: temp.where("a == 1 # and b"), "not a condition"),
    (lambda: temp.where(" "), "not a condition"),
    (lambda: str(other_than("A")), "a negation needs a domain"),
    (lambda: other_than("A").where(x=1), "a condition on what is excluded"),
    (lambda: other_than("A").without("B"), "excluded already"),
    (lambda: A.among(), "no events are named"),
    (lambda: A.among(B.among(C)), "a domain of its own"),
    (lambda: A.among(B.then(C)), "not a set of events"),  # type: ignore[arg-type]
    (lambda: A.then(3), "not a pattern"),  # type: ignore[arg-type]
    (lambda: event(), "not an event type"),
    (lambda: event(""), "not an event type"),
    (lambda: A.by(), "by needs an attribute"),
    (lambda: A.init(), "init needs a register"),
    (lambda: A.repeated(-1), "not a number of times"),
    (lambda: A.repeated(0), "not a number of times"),
    (lambda: A.repeated(3, 2), "not a number of times"),
    (lambda: A.within("5 parsecs"), "not a duration"),
    (lambda: A.within(timedelta(seconds=-1)), "a duration that goes back"),
    (lambda: A.timeout("at noon", lambda t: t), "not a moment"),
    (lambda: A.timeout(datetime(2026, 1, 1), lambda t: t), "a moment without a zone"),
    (lambda: call("sqrt", 3), "no function of this name: sqrt"),
    (lambda: call("hour", 3, "UTC"), "hour takes an instant and a time zone"),
    (lambda: call("hour", hi(A), 3, "UTC"), "hour takes an instant and a time zone"),
    (lambda: call("abs"), "abs takes other arguments"),
    (lambda: derived_type("X", A.union(B)), "derived from one other"),
    (lambda: derived_type("X", A, by="room"), "needs every"),
    (lambda: pattern_file(), "without a pattern"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "message"), WRONG, ids=[message for _, message in WRONG])
def test_mistakes_are_errors_where_they_are_made(mistake: Callable[[], Any], message: str) -> None:
    with pytest.raises(DistcedError, match=message):
        mistake()


def test_time_event_does_not_leave_the_pattern_it_belongs_to() -> None:
    kept: list[EventSet] = []
    A.timeout("5s", lambda t: (kept.append(t), t)[1])
    with pytest.raises(PatternError, match="a time event outside the pattern"):
        str(B.then(kept[0]))


def test_hidden_attributes_are_no_attributes_of_events() -> None:
    with pytest.raises(AttributeError):
        _ = door._repr_html_
    with pytest.raises(TypeError):
        list(door)


# Random compositions, each built twice: with the binding, and as the tree it should be read as.

Built = tuple[Pattern, tree.Pattern]
TYPES = ("A", "B", "C")


def _set(names: list[str]) -> TypeSet | Union:
    return TypeSet(names[0]) if len(names) == 1 else Union(tuple(map(TypeSet, names)))


@st.composite
def atoms(draw: st.DrawFn) -> Built:
    names = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True))
    made, label, domain = event(*names), _set(names), None
    if draw(st.booleans()):
        looked_at = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True))
        made, domain = made.among(*looked_at), _set(looked_at)
    variable = draw(st.sampled_from(("", "", "x", "within")))
    return (made.named(variable) if variable else made), tree.Atom(label, domain, variable)


def _joined(kind: type[Any], first: Built, second: Built) -> tree.Pattern:
    parts = first[1].parts if isinstance(first[1], kind) else (first[1],)
    return kind((*parts, second[1]))


def _extend(inner: st.SearchStrategy[Built]) -> st.SearchStrategy[Built]:
    pairs, times = st.tuples(inner, inner), st.tuples(st.integers(0, 3), st.integers(1, 4))
    numbers = st.integers(1, 10**6)

    def timed(pair: tuple[Built, Built], number: int) -> Built:
        first, second = pair
        name = f"T{number}"
        made = first[0].timeout("5s", lambda t: second[0].then(t), name=name)
        after = _joined(tree.Sequence, second, (event(name), tree.Atom(TypeSet(name))))
        return made, tree.Timing(first[1], after, name, tree.Relative(5 * 10**9))

    return st.one_of(
        pairs.map(lambda p: (p[0][0].then(p[1][0]), _joined(tree.Sequence, *p))),
        pairs.map(lambda p: (p[0][0].followed_by(p[1][0]), _joined(tree.Concatenation, *p))),
        pairs.map(lambda p: (p[0][0] | p[1][0], _joined(tree.Alternation, *p))),
        pairs.map(lambda p: (p[0][0] & p[1][0], tree.Parallel(p[0][1], p[1][1]))),
        st.tuples(inner, times).map(
            lambda p: (
                p[0][0].repeated(min(p[1]), max(p[1])),
                tree.Iteration(p[0][1], min(p[1]), max(p[1])),
            )
        ),
        inner.map(lambda p: (p[0].at_least_once(), tree.Iteration(p[1], 1, None))),
        inner.map(lambda p: (~p[0], tree.Hidden(p[1]))),
        inner.map(lambda p: (p[0].within("3s"), tree.Window(p[1], 3 * 10**9))),
        inner.map(lambda p: (p[0].by("k"), tree.Keyed(p[1], ("k",)))),
        st.tuples(inner, st.sampled_from(TYPES)).filter(lambda p: not isinstance(p[0][0], EventSet)).map(
            lambda p: (p[0][0].without(p[1]), tree.Scope(p[0][1], TypeSet(p[1])))
        ),
        inner.map(
            lambda p: (p[0].init(n=0), tree.Init((("n", parse_expression("0")),), p[1]))
        ),
        st.tuples(pairs, numbers).map(lambda p: timed(*p)),
    )  # fmt: skip


@pytest.mark.slow
@given(st.recursive(atoms(), _extend, max_leaves=12))
@settings(max_examples=400, deadline=None)
def test_any_composition_is_read_as_what_it_was_built_as(built: Built) -> None:
    pattern, expected = built
    assert parse_publication(str(pattern)).pattern == expected


@given(
    st.recursive(
        st.sampled_from([temp.a, temp.b, value("n"), call("abs", temp.c)]),
        lambda inner: st.one_of(
            st.tuples(inner, st.one_of(inner, st.integers(-3, 3), st.floats(-2, 2), st.text(max_size=3))).flatmap(
                lambda p: st.sampled_from(
                    [p[0] + p[1], p[0] - p[1], p[0] == p[1], p[0] < p[1], p[1] * p[0], p[0] & p[1]]
                )
            ),
            inner.map(lambda e: ~e),
            inner.map(lambda e: -e),
            st.tuples(inner, inner).map(lambda p: p[0] | p[1]),
        ),
        max_leaves=8,
    )
)
@settings(max_examples=300, deadline=None)
def test_any_expression_is_read_as_what_it_was_built_as(condition: Any) -> None:
    built = temp.where(condition)
    assert parse_publication(str(built)).pattern.label == built._label
