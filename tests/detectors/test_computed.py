"""Computed attributes of derived types: written out, but for keys, which are put beside events before the automata."""

from __future__ import annotations

from pathlib import Path

import pytest

from distced.detectors.compiler import compile_file
from distced.detectors.cutting.cut import Choose, cut, full, none
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.cli.command import main
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Event


def test_computed_attributes_are_part_of_the_canonical_form_as_they_are_read() -> None:
    plain = compile_file("[Temp where temp * 2 > 3 and hi() > 5] ; [Temp as y] -> X(t = y.temp * 2)\n")
    two = "type Two = Temp where hi() > 5 with (twice = temp * 2, other = temp + 1)\n"
    same = compile_file(
        two + "type All = Temp with (t = temp * 2)\n" + "[Two where twice > 3] ; [All as y] -> X(t = y.t)\n"
    )
    assert plain[0].canonical_id == same[0].canonical_id
    assert not same[0].computations


def test_computed_keys_of_equal_values_are_one() -> None:
    one, other, third = (
        compile_file(f"type R = Temp with ({name} = floor(hi() / {length}))\n[R] ; [R] by {name}\n")[0]
        for name, length in (("hour", "1h"), ("h", "60min"), ("hour", "2h"))
    )
    assert one.canonical_id == other.canonical_id != third.canonical_id
    assert [each.name for each in other.computations] == ["h"]


def test_computed_attributes_that_double_again_and_again_are_refused() -> None:
    types = ["type R0 = Temp with (v = temp)"]
    types += [f"type R{each + 1} = R{each} with (v = v + v)" for each in range(40)]
    with pytest.raises(PatternError, match=r"too large with its computed attributes written out: v \+ v"):
        compile_file("\n".join([*types, "[R40 where v > 3]\n"]))


@pytest.mark.parametrize("choose", [none, full])
def test_computed_keys_continue_after_a_snapshot(choose: Choose) -> None:
    (pattern,) = compile_file("type R = A with (ten = floor(hi() / 10))\n[R] [R] by ten -> X(ten = ten)\n")
    (plan,) = cut([pattern], choose).plans.values()
    events = [Event("A", i, i, "s", i, {}) for i in (0, 5, 11, 12)]
    engine, fresh = StepwiseEngine([plan.compiled]), StepwiseEngine([plan.compiled])
    found = engine.feed(events[:1])
    restore(fresh, snapshot(engine))
    found += fresh.feed(events[1:])
    assert [(each.constituents, each.attributes) for each in found] == [
        ((("s", 0), ("s", 5)), {"ten": 0}),
        ((("s", 11), ("s", 12)), {"ten": 1}),
    ]
    assert all(not event.attributes for each in found for event in each.events)


def test_computed_keys_are_shown_by_their_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "hours.pattern"
    types = "type R = A with (ten = floor(hi() / 10))\ntype S = R every 1h by ten\n"
    path.write_text(types + "[S] [S] ; [R] by ten -> X(ten = ten)\n")
    for verb in ["check"], ["explain"], ["explain", "--cuts"], ["explain", "--decomposition", "full"]:
        assert main([*verb, str(path)]) == 0
        shown = capsys.readouterr().out
        assert "computed " not in shown
        assert "ten" in shown
