"""Engines that change while a detector runs, for tests: at random, at once, or never."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from distced.detectors.runtime.engine_choice import EngineLoad, Forced
from distced.detectors.runtime.engine_switch import Engines
from distced.detectors.runtime.engines import EngineName
from distced.detectors.runtime.pass_choice import Changes, M, PassLoad


@dataclass
class AtOnce:
    """The columnar engine can be used whenever somebody wants it."""

    problem: str = ""

    def ready(self) -> bool:
        return True


@dataclass
class Never:
    """It cannot be had.

    Attributes:
        asked: how often somebody wanted it.
    """

    problem: str = "there is none here"
    asked: int = 0

    def ready(self) -> bool:
        self.asked += 1
        return False


@dataclass
class ByChance:
    """Any engine after any call."""

    random: Random

    def choose(self, calls: int, events: int, found: int, now: int, load: EngineLoad) -> EngineName:
        return self.random.choice(("stepwise", "columnar"))


@dataclass
class PassByChance:
    """Some members enter a shared pass after any release, and now and then all leave."""

    random: Random

    def choose(self, called: Sequence[M], load: PassLoad) -> Changes[M]:
        ends = self.random.random() < 0.05
        return Changes([] if ends else [each for each in called if self.random.random() < 0.4], ends)


def by_chance(seed: int) -> Engines:
    """Engines that change whenever chance wants it."""
    random = Random(seed)
    return Engines(AtOnce(), lambda: ByChance(random), lambda: PassByChance(random))


def passes_by_chance(seed: int) -> Engines:
    """Stepwise engines, and shared passes whose members change whenever chance wants it."""
    random = Random(seed)
    return Engines(AtOnce(), lambda: Forced("stepwise"), lambda: PassByChance(random))
