"""Random CEDMOS specifications as text, and events for them, seeded: small alphabets and times."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from distced.detectors.compiler import compile_publication
from distced.detectors.frontends.cedmos import translate
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import Attribute, Event
from distced.middleware.patterns.tree import Publication
from tests.support.random_patterns import TYPES as PATTERN_TYPES

TYPES = ("A", "B", "C")
VALUES: tuple[Attribute, ...] = (1, 1, 2, 2.0, "a", True, None)
ATTRIBUTES = ("k", "v", "n")
FIELDS = ("n", "s", "v", "was_n", "_last", "_n", "m", "last", "_was_n")
"""Names of fields, of which some are those of attributes, and others what translations might make up."""


@dataclass
class CedmosMaker:
    """Makes a random specification.

    Attributes:
        types: types of primitive events.
        plain: whether transformers have categories that are attributes alone, so that no type is derived.
    """

    random: Random
    types: tuple[str, ...] = TYPES
    plain: bool = False
    fields: tuple[str, ...] = ()

    def text(self) -> str:
        """Transformers, of which each may read those before it; they stand in any order."""
        names: list[str] = []
        texts: list[str] = []
        for number in range(self.random.choice((1, 1, 2, 3))):
            inputs = (*self.types, *names, *names)
            name = f"M{number}"
            texts.append(self.operator(name, inputs) if self.random.random() < 0.25 else self.transformer(name, inputs))
            names.append(name)
        self.random.shuffle(texts)
        return "\n".join(texts)

    def operator(self, name: str, inputs: tuple[str, ...]) -> str:
        random = self.random
        one, *more = random.sample(tuple(dict.fromkeys(inputs)), random.choice((2, 2, 3)))
        several = ", ".join((one, *more))
        attribute = random.choice(ATTRIBUTES)
        kinds = [
            f"filter({one} where {self.condition(of_event=True)})",
            f"and({several})",
            f"or({several})",
            f"sequence({several}, {random.choice(inputs)})",
            f"count({one}, {random.randrange(1, 4)})",
            f"state(on {one}, off {more[0]})",
            f"output({one}, to = 'role', what = v, when_ = {random.randrange(9)})",
        ]
        kinds += [f"{word}({one}, {attribute})" for word in ("sum", "mean", "least", "greatest", "change")]
        by = f" by {random.choice(('k', 'k, w'))}" if random.random() < 0.6 else ""
        return f"operator {name} = {random.choice(kinds)}{by}"

    def transformer(self, name: str, inputs: tuple[str, ...]) -> str:
        random = self.random
        self.fields = tuple(random.sample(FIELDS, random.randrange(1, 5)))
        dimensions = random.choice(((), ("k",), ("k",), ("k", "d")))
        dimensions = tuple(each for each in dimensions if each not in self.fields)
        if self.plain:
            dimensions = dimensions[:1]
        firing = random.choice(self.fields)
        fields = []
        for each in self.fields:
            shown = random.choice(("", " hidden", " visible", " visible"))
            # Attributes of these names would collide with those before the instant.
            if each == "was_n" and "n" in self.fields:
                shown = " hidden"
            if each == "n" and "was_n" in self.fields and shown == " visible":
                shown = " hidden"
            fires = " firing" if each == firing or random.random() < 0.2 else ""
            fields.append(f"{each} = {random.choice(('0', '1', 'null', 'null', '2 * 3'))}{shown}{fires}")
        lines = [f"transformer {name}"]
        if dimensions:
            lines.append(f"  category {', '.join(dimensions)}")
        lines.append(f"  state {', '.join(fields)}")
        categories: dict[str, str] = {}
        for _ in range(random.choice((1, 2, 2, 3))):
            type_name = random.choice(inputs)
            category = self.category(dimensions)
            lines.append(self.channel(type_name, categories.setdefault(type_name, category)))
        return "\n".join(lines)

    def category(self, dimensions: tuple[str, ...]) -> str:
        given = []
        for each in dimensions:
            values = (f"e.{each}",) if self.plain else (f"e.{each}", "e.k", "e.v % 2", "floor(e.time / 4)", "e.v", "1")
            given.append(f"{each} = {self.random.choice(values)}")
        self.random.shuffle(given)
        return f" categorize {', '.join(given)}" if given else ""

    def channel(self, type_name: str, category: str) -> str:
        random = self.random
        ignored = f" ignore when {self.condition(of_event=True)}" if random.random() < 0.4 else ""
        done = f" do {self.statements(random.randrange(1, 4), 2)}" if random.random() < 0.95 else ""
        return f"  on {type_name} as e{ignored}{category}{done}"

    def statements(self, count: int, depth: int) -> str:
        return "; ".join(self.statement(depth) for _ in range(count))

    def statement(self, depth: int) -> str:
        random = self.random
        if depth and random.random() < 0.35:
            text = f"if {self.condition()} then {self.block(depth - 1)}"
            return f"{text} else {self.block(depth - 1)}" if random.random() < 0.5 else text
        name = random.choice(self.fields)
        value = random.choice((f"{name} + 1", f"1 - {name}", self.value(2), self.value(2), "0"))
        if random.random() < 0.05:
            value = random.choice(("'a'", "true", f"{self.value(0)} < {self.value(0)}"))
        return f"{name} = {value}"

    def block(self, depth: int) -> str:
        if self.random.random() < 0.4:
            # With braces, or else would be that of a choice inside.
            return f"{{ {self.statement(depth)} }}"
        return f"{{ {self.statements(self.random.randrange(1, 4), depth)} }}"

    def condition(self, depth: int = 1, *, of_event: bool = False) -> str:
        random = self.random
        if depth and random.random() < 0.25:
            return f"{self.condition(depth - 1, of_event=of_event)} {random.choice(('and', 'or'))} not " + (
                f"({self.condition(depth - 1, of_event=of_event)})"
            )
        left, right = (self.value(1, of_event=of_event) for _ in range(2))
        return f"{left} {random.choice(('=', '==', '!=', '<', '<=', '>', '>='))} {right}"

    def value(self, depth: int, *, of_event: bool = False) -> str:
        random = self.random
        event = [f"e.{each}" for each in ATTRIBUTES] if not of_event else ["v", "v", "k"]
        roll = random.random()
        if not depth or roll < 0.5:
            own = list(self.fields) * 2 if not of_event else []
            if of_event:
                event = [each for each in event if each not in self.fields] or ["1"]
            more = [*(["e.time"] if not of_event else ["hi()", "lo()"]), "0", "1", "2", "null"]
            return random.choice((*own, *event, *event, *more))
        parts = [self.value(depth - 1, of_event=of_event) for _ in range(2)]
        if roll < 0.85:
            return f"({parts[0]} {random.choice('+-*/%')} {parts[1]})"
        return f"if({self.condition(0, of_event=of_event)}, {parts[0]}, {parts[1]})"


def make_cedmos(random: Random, types: tuple[str, ...] = TYPES) -> str:
    """The text of a random specification."""
    return CedmosMaker(random, types).text()


def transformed(random: Random) -> Publication:
    """The publication of a random transformer over the types of random patterns, without derived types."""
    while True:
        text = CedmosMaker(random, PATTERN_TYPES, plain=True).transformer("M0", PATTERN_TYPES)
        try:
            file = translate(text, TypeRegistry(open=True)).file
            compile_publication(file.publications[0])
        except PatternError:
            continue
        if not file.types:
            return file.publications[0]


def make_cedmos_events(random: Random, count: int) -> list[Event]:
    """Random events in the order of consumption: ties, intervals, nulls."""
    events = []
    for seq in range(count):
        hi = random.randrange(10)
        lo = hi - (random.randrange(5) if random.random() < 0.25 else 0)
        attributes = {each: random.choice(VALUES) for each in (*ATTRIBUTES, "w")}
        events.append(Event(random.choice(TYPES), lo, hi, "e", seq, attributes))
    return sorted(events, key=lambda event: event.key)
