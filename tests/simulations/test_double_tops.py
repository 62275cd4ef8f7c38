"""Double tops in CEL, the query of the tutorial: on recorded prices those of a walk over the turning points."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import TypeAlias

import pytest

from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.runtime.engines import make_engine
from distced.middleware.event_files import read_events
from distced.middleware.mapping import load_mapping
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import Event

ROOT = Path(__file__).parents[2]
RECORDING = ROOT.parent / "shared" / "data" / "nasdaq_minute_20080201.csv.gz"
MAPPING = ROOT / "simulations" / "recordings" / "closes.toml"
PAGE = (ROOT / "docs" / "tutorial" / "cayuga.md").read_text(encoding="utf-8")

Top: TypeAlias = tuple[int, ...]


def query(rise: float, near: float) -> str:
    """Query of the tutorial, with the least rise from A to B and the greatest difference of lows, and of highs."""
    (text,) = re.findall(r"^cat > tops.cel <<'END'\n(.*?)^END$", PAGE, re.MULTILINE | re.DOTALL)
    assert text.count("1.2 *") == 1
    assert text.count("0.9 *") == text.count("1.1 *") == 2
    return text.replace("1.2 *", f"{rise} *").replace("0.9 *", f"{1 - near} *").replace("1.1 *", f"{1 + near} *")


def walked(closes: list[float], rise: float, near: float) -> list[Top]:
    """Places of the first quote, A, B, C, D, E and the last quote."""
    tops = []
    turns = [
        0,
        *(n for n in range(1, len(closes) - 1) if (closes[n] - closes[n - 1]) * (closes[n + 1] - closes[n]) <= 0),
    ]
    for a, b, c, d, e in zip(*(turns[n:] for n in range(5)), strict=False):
        if a == 0 or not closes[a - 1] > closes[a]:
            continue
        # Equal prices end a run that does not turn.
        turned = [closes[a], closes[b], closes[c], closes[d], closes[e], closes[e + 1]]
        rising = [closes[n + 1] > closes[n] for n in (a, b, c, d, e)]
        falling = [closes[n + 1] < closes[n] for n in (a, b, c, d, e)]
        if not (rising[0] and falling[1] and rising[2] and falling[3] and rising[4]):
            continue
        low, high, second_low, second_high, last, _ = turned
        near_low = (1 - near) * low <= second_low <= (1 + near) * low
        near_high = (1 - near) * high <= second_high <= (1 + near) * high
        if high >= rise * low and near_low and near_high and last < low:
            tops.append((a - 1, a, b, c, d, e, e + 1))
    return tops


@pytest.mark.parametrize("engine", ["stepwise", "columnar"])
@pytest.mark.parametrize(("rise", "near"), [(1.001, 0.01), (1.002, 0.005), (1.01, 0.02)])
def test_double_tops_are_those_of_the_turning_points(engine: str, rise: float, near: float) -> None:
    if not RECORDING.exists():
        pytest.skip(f"the recording {RECORDING.name} is not at ../shared/data")
    events = list(read_events(RECORDING, load_mapping(MAPPING)))
    types = TypeRegistry([event_type("Close", {"symbol": "string", "close": "number"})])
    patterns = compile_source(PatternSource(query(rise, near), "tops.cel", "cel"), types).compiled
    running = make_engine(patterns, lambda _: None, engine=engine)
    composites = [*running.feed(events), *running.advance(events[-1].hi)]

    by_symbol: dict[object, list[Event]] = defaultdict(list)
    for each in events:
        by_symbol[each.attributes["symbol"]].append(each)
    wanted = {
        (quotes[top[0]].id, quotes[top[-1]].id, *(quotes[place].attributes["close"] for place in top[1:-1]))
        for quotes in by_symbol.values()
        for top in walked([float(each.attributes["close"]) for each in quotes], rise, near)
    }
    found = [
        (each.constituents[0], each.constituents[-1], *(each.attributes[name] for name in "ABCDE"))
        for each in composites
    ]
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert wanted or rise > 1.005
