"""`distced bench seq3`: A, then B, then C with the same key within five seconds, by the stepwise engine.

Event i happens at i ms; type, key and value come from `random.Random(7)`. Both questions are asked: the first B and C
after each A, and every one of them. The baseline of the run is the same question answered by Python written for it by
hand.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from detectors.compilation import compile_pattern
from detectors.stepwise.engine import StepwiseEngine
from middleware.events import Event
from middleware.timestamps import MILLISECOND, SECOND

FIRST: Final = "[A] ; [B] ; [C] within 5s by key"
EVERY: Final = "[A] ; ~[B]* [B] ; ~[C]* [C] within 5s by key"
WINDOW: Final = 5 * SECOND

EXPECTED: Final = {(200_000, "first"): 17_746, (200_000, "every"): 38_889, (1_000_000, "first"): 89_195} | {
    (1_000_000, "every"): 195_163
}
"""How many matches there are, by number of events and question."""


@dataclass(frozen=True)
class Measured:
    """One way of answering one question.

    Attributes:
        seconds: the best of the rounds.
        ratio: its rate against that of Python written by hand.
    """

    question: str
    by: str
    events: int
    matches: int
    expected: int | None
    seconds: float
    rate: float
    ratio: float


def make_events(count: int) -> list[Event]:
    """The input."""
    random = Random(7)
    events = []
    for number in range(count):
        name = "ABCD"[random.randrange(4)]
        attributes = {"key": random.randrange(1000), "value": random.randrange(100)}
        instant = number * MILLISECOND
        events.append(Event(name, instant, instant, "bench", number, attributes))
    return events


def measure(count: int, rounds: int = 3) -> list[Measured]:
    """Answer both questions by hand and by the engine, alternately, and keep the best round of each."""
    events = make_events(count)
    gc.collect()
    gc.freeze()
    results: list[Measured] = []
    for question, text, by_hand in (("first", FIRST, first_by_hand), ("every", EVERY, every_by_hand)):
        ways: dict[str, Callable[[list[Event]], int]] = {
            "by hand": by_hand,
            "stepwise": lambda given, text=text: len(StepwiseEngine([compile_pattern(text)]).feed(given)),  # type: ignore[misc]
        }
        best: dict[str, tuple[float, int]] = {}
        for _ in range(rounds):
            for name, way in ways.items():
                began = time.perf_counter()
                matches = way(events)
                seconds = time.perf_counter() - began
                best[name] = min(best.get(name, (seconds, matches)), (seconds, matches))
        for name, (seconds, matches) in best.items():
            expected = EXPECTED.get((count, question))
            ratio = best["by hand"][0] / seconds
            results.append(Measured(question, name, count, matches, expected, seconds, count / seconds, ratio))
    return results


def first_by_hand(events: list[Event]) -> int:
    """For each A the first B after it, and the first C after that."""
    waiting_b: dict[object, list[int]] = {}
    waiting_c: dict[object, list[int]] = {}
    matches = 0
    for event in events:
        name, now, key = event.type, event.hi, event.attributes["key"]
        if name == "A":
            waiting_b.setdefault(key, []).append(now)
        elif name == "B":
            begun = waiting_b.pop(key, None)
            if begun:
                alive = [start for start in begun if now - start <= WINDOW]
                if alive:
                    waiting_c.setdefault(key, []).extend(alive)
        elif name == "C":
            begun = waiting_c.pop(key, None)
            if begun:
                matches += sum(now - start <= WINDOW for start in begun)
    return matches


def every_by_hand(events: list[Event]) -> int:
    """For each A every B after it, and for each of these pairs every C after that."""
    all_a: dict[object, deque[int]] = {}
    all_b: dict[object, deque[tuple[int, list[int]]]] = {}
    matches = 0
    for event in events:
        name, now, key = event.type, event.hi, event.attributes["key"]
        if name == "A":
            all_a.setdefault(key, deque()).append(now)
        elif name == "B":
            begun = all_a.get(key)
            if begun:
                while begun and now - begun[0] > WINDOW:
                    begun.popleft()
                if begun:
                    all_b.setdefault(key, deque()).append((now, list(begun)))
        elif name == "C":
            pairs = all_b.get(key)
            if pairs:
                while pairs and now - pairs[0][0] > WINDOW:
                    pairs.popleft()
                matches += sum(now - start <= WINDOW for _, starts in pairs for start in starts)
    return matches
