"""`distced bench double-top`: Cayuga's double tops, by µ and by resubscription, side by side.

cayuga-algebra-cesar, section 5.2.2 and Figure 20: five local extrema of a price in a row, from a minimum A by 20 per
cent or more to a maximum B, to a minimum C within ten per cent of A, to a maximum D within ten per cent of B, to a
minimum E below A. By µ it is one automaton over quotes; by resubscription a stream of extrema, each over three quotes,
is read five times. Both are confirmed by the quote behind E, and find the same. The article has closing prices of 24
companies, which are not free; here they are random walks, smoothed by an average over several days as there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from random import Random
from typing import Final, Literal, TypeAlias

from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.compiler import Compiled, compile_translation
from distced.detectors.frontends.languages import translate
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.state_size import state_size
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

COMPANIES: Final = 24
DAILY: Final = 0.15
"""Standard deviation of the logarithm of a day's change."""

STEP: Final = 5_000
"""Number of events that an engine takes at once."""

QUOTE: Final = EventType("S", {"name": "string", "price": "number"})

BY_MU: Final = """
DoubleTop := π[A.name, A.price, B.price, C.price, D.price, E.price] σ[Z.price > E.price] (
 σ[E.price < A.price]
 µ[σ[E.price < E.price.last]; E.name = A.name; E.name from D.name, E.price from D.price] (
  σ[0.9 * B.price <= D.price <= 1.1 * B.price]
  µ[σ[D.price > D.price.last]; D.name = A.name; D.name from C.name, D.price from C.price] (
   σ[0.9 * A.price <= C.price <= 1.1 * A.price]
   µ[σ[C.price < C.price.last]; C.name = A.name; C.name from B.name, C.price from B.price] (
    σ[B.price >= 1.2 * A.price]
    µ[σ[B.price > B.price.last]; B.name = A.name; B.name from A.name, B.price from A.price] (
     σ[A.price < Q.price] (S as Q ;[Q.name = A.name] S as A),
     S as B), S as C), S as D), S as E)
 ;[Z.name = A.name] S as Z)
"""

BY_RESUBSCRIPTION: Final = """
Extremum := α[top = 1] ρ[S2.name -> name, S2.price -> price] π[S2.name, S2.price] σ[S3.price < S2.price] (
    σ[S2.price > S1.price] (S as S1 ;[S1.name = S2.name] S as S2) ;[S2.name = S3.name] S as S3)
  ∪ α[top = 0] ρ[S2.name -> name, S2.price -> price] π[S2.name, S2.price] σ[S3.price > S2.price] (
    σ[S2.price < S1.price] (S as S1 ;[S1.name = S2.name] S as S2) ;[S2.name = S3.name] S as S3).
DoubleTop := π[A.name, A.price, B.price, C.price, D.price, E.price]
 σ[E.price < A.price] (
  σ[0.9 * B.price <= D.price <= 1.1 * B.price] (
   σ[0.9 * A.price <= C.price <= 1.1 * A.price] (
    σ[A.top = 0 ∧ B.price >= 1.2 * A.price] (Extremum as A ; overlapping [B.name = A.name] Extremum as B)
    ; overlapping [C.name = A.name] Extremum as C)
   ; overlapping [D.name = A.name] Extremum as D)
  ; overlapping [E.name = A.name] Extremum as E)
"""

Formulation: TypeAlias = Literal["µ", "resubscription"]
TEXTS: Final[dict[Formulation, str]] = {"µ": BY_MU, "resubscription": BY_RESUBSCRIPTION}


@dataclass(frozen=True, slots=True)
class DoubleTopFigure:
    """Rates of the engines, events/s, bytes of their states at the end, and the number of double tops."""

    days: int  # of the average
    formulation: Formulation
    stepwise_rate: float
    columnar_rate: float
    stepwise_memory: int
    columnar_memory: int
    found: int


def quotes(count: int, days: int, seed: int) -> list[Event]:
    """n daily quotes of all companies in turn, each the average over some days of a random walk."""
    random = Random(seed)
    prices = [[math.exp(random.gauss(4.0, 0.5))] for _ in range(COMPANIES)]
    events: list[Event] = []
    for number in range(count):
        day, company = divmod(number, COMPANIES)
        past = prices[company]
        past.append(past[-1] * math.exp(random.gauss(0.0, DAILY)))
        del past[:-days]
        events.append(Event("S", day, day, "nyse", number, {"name": f"c{company:02}", "price": sum(past) / len(past)}))
    return events


def compiled(formulation: Formulation) -> tuple[Compiled, ...]:
    """The patterns of a formulation; the double tops are the last."""
    registry = TypeRegistry([QUOTE])
    return compile_translation(translate(TEXTS[formulation], "algebra", registry), registry)[0]


def measure(
    events: int, averages: Sequence[int], seed: int, on_progress: OnProgress = no_progress
) -> list[DoubleTopFigure]:
    """The figures of both formulations with averages over these numbers of days."""
    figures = []
    for formulation in TEXTS:
        # Compiled before it is measured.
        _columnar(compiled(formulation), quotes(20 * COMPANIES, 1, seed))
    for days in averages:
        given = quotes(events, days, seed)
        for formulation in TEXTS:
            on_progress(f"{formulation}, average over {days}")
            patterns = compiled(formulation)
            slow, slow_memory, found = _stepwise(patterns, given)
            fast, fast_memory, again = _columnar(patterns, given)
            # The engines agree elsewhere; here it shows that the same was measured.
            assert found == again
            figures.append(
                DoubleTopFigure(days, formulation, events / slow, events / fast, slow_memory, fast_memory, found)
            )
    return figures


def _stepwise(patterns: Sequence[Compiled], events: list[Event]) -> tuple[float, int, int]:
    """Duration, s, bytes of the state, and number of double tops."""
    engine = StepwiseEngine(patterns)
    found = 0
    began = time.perf_counter()
    for start in range(0, len(events), STEP):
        found += _tops(patterns, engine.feed(events[start : start + STEP]))
    return time.perf_counter() - began, state_size(engine).memory, found


def _columnar(patterns: Sequence[Compiled], events: list[Event]) -> tuple[float, int, int]:
    engine = ColumnarEngine(patterns, lambda name: QUOTE.attributes if name == QUOTE.name else None)
    found = 0
    began = time.perf_counter()
    for start in range(0, len(events), STEP):
        found += _tops(patterns, engine.feed(events[start : start + STEP]))
    return time.perf_counter() - began, engine.size().memory, found


def _tops(patterns: Sequence[Compiled], events: Sequence[CompositeEvent]) -> int:
    return sum(each.source == patterns[-1].canonical_id for each in events)


def report(figures: Sequence[DoubleTopFigure]) -> Report:
    """The figures as a report."""
    columns = [
        *number_columns(",.0f", "average, days"),
        Column("formulation"),
        *number_columns(
            ",.0f", "stepwise: events/s", "columnar: events/s", "stepwise: bytes", "columnar: bytes", "double tops"
        ),
    ]
    found: dict[int, set[int]] = {}
    for each in figures:
        found.setdefault(each.days, set()).add(each.found)
    faults = [
        f"the formulations find different numbers of double tops, average over {days}"
        for days, numbers in found.items()
        if len(numbers) > 1
    ]
    return Report("double-top", figures, [ReportTable(columns, list(map(astuple, figures)))], faults=faults)
