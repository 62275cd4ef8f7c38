"""Random CEDR queries as text, and events for them, seeded: small alphabets and small times, so that all collides."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from distced.detectors.frontends.cedr import translate
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import Attribute, Event
from distced.middleware.patterns.printer import format_file
from distced.middleware.patterns.tree import Publication
from tests.support.random_patterns import TYPES as PATTERN_TYPES

TYPES = ("A", "B", "C", "D")
OUTER = ("I", "E")
VALUES: tuple[Attribute, ...] = (1, 2, 2.0, "a", True, None)


@dataclass
class CedrMaker:
    """Makes random queries, most of which are accepted.

    Attributes:
        types, outer: of its operands, and of what begins and ends lifespans, beside those.
        positive, negated: names of the operands made so far.
        equalities: conditions that compare a negated operand with the one behind it.
    """

    random: Random
    types: tuple[str, ...] = TYPES
    outer: tuple[str, ...] = OUTER
    positive: list[str] = field(default_factory=list)
    negated: list[str] = field(default_factory=list)
    equalities: list[str] = field(default_factory=list)

    def text(self) -> str:
        """A query, with a lifespan or without."""
        random = self.random
        in_lifespan = random.random() < 0.25
        unless = random.random() < 0.12
        pattern = self.pattern(random.choice((1, 2, 2, 3, 3, 4)), in_lifespan)
        if unless:
            pattern = f"UNLESS({pattern}, {self.negative()})"
        lines = [f"Q: Out EVENT_PATTERN {pattern}"]
        if where := self.where():
            lines.append(f"WHERE {where}")
        if in_lifespan:
            lines.insert(0, self.lifespan())
            lines.append("LIFETIME LIFESPAN Span")
        elif unless or random.random() < 0.3:
            lines.append(f"LIFETIME {self.duration(8)}")
        elif random.random() < 0.15:
            lives = [f"{each} {self.duration(8)}" for each in self.some(self.positive)]
            lines.append(f"LIFETIME TTL {', '.join(lives)}")
        if notify := self.notify():
            lines.append(f"NOTIFY {notify}")
        roll = random.random()
        if roll < 0.35:
            modes = ("SHARED",) if in_lifespan else ("SHARED", "EXT-EXCLUSIVE")
            lines.append(f"CONSUMPTION {random.choice(modes)}")
        return "\n".join(lines)

    def some(self, names: list[str]) -> list[str]:
        return self.random.sample(names, self.random.randint(1, len(names)))

    def duration(self, most: int = 6) -> str:
        return f"{self.random.randrange(most)} ns"

    def operand(self) -> str:
        name = f"x{len(self.positive) + 1}"
        self.positive.append(name)
        return f"{self.random.choice(self.types)} {name}"

    def negative(self) -> str:
        name = f"n{len(self.negated) + 1}"
        self.negated.append(name)
        return f"{self.random.choice(self.types)} {name}"

    def pattern(self, size: int, in_lifespan: bool, *, last: bool = True) -> str:
        """A pattern of about `size` operands; one that is not `last` in a sequence is not known later than it ends."""
        random = self.random
        if size <= 1:
            made = self.operand()
        else:
            kind = random.choice(("ALL", "ANY", "SEQUENCE", "SEQUENCE", "SEQUENCE", "&", "ATLEAST", "ATLEAST1"))
            if kind == "ATLEAST1":
                made = f"ATLEAST({random.randint(1, size)}, {self.operand()})"
            elif kind == "SEQUENCE":
                made = self.sequence(size, in_lifespan, last)
            else:
                sizes = self.divided(size)
                parts = [self.pattern(each, in_lifespan, last=last) for each in sizes]
                if kind == "&":
                    made = f"({' & '.join(parts)})"
                elif kind == "ATLEAST":
                    made = f"ATLEAST({random.randint(1, len(parts))}, {', '.join(parts)})"
                else:
                    made = f"{kind}({', '.join(parts)})"
        if last and self.positive and random.random() < 0.08:
            made = f"({made} & T[{random.choice(self.positive)}.t + {self.duration()}])"
        if random.random() < 0.08:
            by = (
                self.negative() if random.random() < 0.6 else f"T[{random.choice(self.positive)}.t + {self.duration()}]"
            )
            made = f"({made} CANCEL-WHEN {by})"
        return made

    def divided(self, size: int) -> list[int]:
        sizes = [1] * self.random.randint(2, size)
        for _ in range(size - len(sizes)):
            sizes[self.random.randrange(len(sizes))] += 1
        return sizes

    def sequence(self, size: int, in_lifespan: bool, last: bool) -> str:
        random = self.random
        parts: list[str] = []
        sizes = self.divided(size) if random.random() < 0.8 else [size]
        if random.random() < 0.15:
            word = random.choice(("NOT", "ATMOST"))
            parts.append(self.absence(word, scope=not in_lifespan or random.random() < 0.5))
        for place, each in enumerate(sizes):
            final = place == len(sizes) - 1
            parts.append(self.pattern(each, in_lifespan, last=final and last))
            if not final and random.random() < 0.3:
                parts.append(self.absence(random.choice(("NOT", "NOT", "ATMOST")), scope=random.random() < 0.5))
        if last and random.random() < 0.25:
            scope = not in_lifespan or random.random() < 0.5
            parts.append(self.absence(random.choice(("NOT", "NOT", "ATMOST")), scope=scope))
        if len(parts) == 1:
            return parts[0]
        return f"SEQUENCE({', '.join(parts)})"

    def absence(self, word: str, *, scope: bool) -> str:
        operands = ", ".join(self.negative() for _ in range(self.random.choice((1, 1, 2))))
        if self.random.random() < 0.2:
            own, other = self.random.choice(("kk", "kk", "vv", "kv"))
            behind = f"x{len(self.positive) + 1}"
            new = self.negated[-1 - operands.count(",") :]
            self.equalities += (f"{each}.{own} = {behind}.{other}" for each in new)
        number = f"{self.random.randint(0, 2)}, " if word == "ATMOST" else ""
        return f"{word}({number}{operands}{f', WITHIN {self.duration()}' if scope else ''})"

    # Conditions.

    def where(self) -> str:
        random = self.random
        conjuncts: list[str] = []
        if random.random() < 0.25:
            conjuncts.append(f"CorrelationKey(k, {random.choice(('Equal', 'Equal', 'Unique'))})")
        for _ in range(random.choice((0, 0, 1, 1, 2))):
            names = [random.choice(self.positive), random.choice(self.positive)]
            if self.negated and random.random() < 0.4:
                names[random.randrange(2)] = random.choice(self.negated)
            conjuncts.append(self.comparison(*names))
        conjuncts += (each for each in self.equalities if each.split("= ")[1].split(".")[0] in self.positive)
        return " AND ".join(conjuncts)

    def comparison(self, one: str, other: str) -> str:
        random = self.random
        roll = random.random()
        if roll < 0.05:
            return f"{one}.v in ({random.randrange(4)}, {other}.v)"
        if roll < 0.3 or one == other:
            return f"{one}.v {random.choice(('=', '!=', '<', '>='))} {random.randrange(4)}"
        if roll < 0.6:
            return f"{one}.k {random.choice(('=', '=', '<>'))} {other}.k"
        if roll < 0.75:
            return f"({one}.v < {other}.v OR NOT {one}.v = 1)"
        if roll < 0.9:
            return f"{one} {random.choice(('BEFORE', 'AFTER', 'EQUAL'))} {other}"
        return f"{one} WITHIN {self.duration()} OF {other}"

    def notify(self) -> str:
        random = self.random
        choices = []
        for name in self.positive:
            if random.random() < 0.5:
                kind = random.choice(("First", "Last", "Each", "Each", f"Cond({name}.v > {random.randrange(3)})"))
                choices.append(f"{kind} {name}")
        if not choices:
            return ""
        attributes = ""
        if random.random() < 0.4:
            name = random.choice(self.positive)
            attributes = f" AS (v = {name}.v, t = {random.choice(self.positive)}.t - {name}.t)"
        return ", ".join(choices) + attributes

    def lifespan(self) -> str:
        random = self.random
        by = " BY k" if random.random() < 0.3 else ""
        initiator = f"{random.choice((*self.types, *self.outer[:1] * 3))} i"
        begins = f" WHERE i.v < {random.randrange(1, 4)}" if random.random() < 0.3 else ""
        ends = ""
        if random.random() < 0.75:
            ends = f" TERMINATOR {random.choice((*self.types, *self.outer[1:] * 3))} e"
            if random.random() < 0.4:
                ends += random.choice(
                    (" WHERE e.v >= i.v", " WHERE e.k = i.k", " WHERE e.v > 0", " WHERE e.t > i.t + 3")
                )
        duration = f" DURATION {self.duration(12)}" if random.random() < 0.6 else ""
        return f"LIFESPAN Span{by} INITIATOR {initiator}{begins}{ends}{duration}"


def make_cedr(random: Random, types: tuple[str, ...] = TYPES) -> str:
    """The text of a random query."""
    return CedrMaker(random, types, OUTER if types == TYPES else ()).text()


def translated(random: Random) -> Publication:
    """The publication of a random query over the types of random patterns, without derived types, whose core text is
    one that nodes accept."""
    while True:
        text = make_cedr(random, PATTERN_TYPES)
        try:
            file = translate(text, TypeRegistry(open=True)).file
        except PatternError:
            continue
        if not file.types and len(format_file(file)) < 9_000:
            return file.publications[0]


def make_cedr_events(random: Random, count: int) -> list[Event]:
    """Random events in the order of consumption: ties, intervals, nulls."""
    events = []
    types = (*TYPES, *TYPES, *OUTER)
    intervals = random.choice((0.0, 0.25))
    for seq in range(count):
        hi = random.randrange(16)
        lo = hi - (random.randrange(5) if random.random() < intervals else 0)
        attributes: dict[str, Attribute] = {"k": random.choice(VALUES), "v": random.choice((0, 1, 2, 3, None))}
        events.append(Event(random.choice(types), lo, hi, "e", seq, attributes))
    return sorted(events, key=lambda event: event.key)
