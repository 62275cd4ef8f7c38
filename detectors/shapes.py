"""Compilation by shape: patterns that differ in the texts of comparisons alone are compiled once.

Ten thousand subscriptions that each name a device are one *shape*, with holes for the texts. A shape is compiled with
stand-ins in the holes. Checks, the canonical form and the automaton depend on texts by their order alone, and by which
of them are equal: so stand-ins are in the order of the texts, and another order is another shape. A pattern of a known
shape costs some microseconds, and shares the automaton (`detectors.automata.parameters`); its trees are made on demand,
by compiling it in full.

Left to full compilation are patterns with texts elsewhere than in comparisons of an attribute, in definitions or in
derived types, sides of `&`, and throttled types. Numbers stay part of the shape: conditions are ordered by their text,
and 9 comes behind 10. Rejected: substitution in the trees of a compiled pattern, as slow as compiling it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, TypeVar

from distced.detectors.automata.automaton import Automaton
from distced.detectors.automata.parameters import parameterised
from distced.detectors.canonical.form import CanonicalForm, identified
from distced.detectors.compiler import Compiled, Consumption, check_pattern
from distced.detectors.language.derived import Throttling
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Attribute
from distced.middleware.patterns.tree import Publication, expressions_of, output_expressions, walk
from distced.middleware.sets.expressions import COMPARISONS, Binary, Expression, Literal, children, format_value

T = TypeVar("T")

_TEXT: Final = re.compile(r"'([^'\\\n\t]*)'")
_UNCLEAR: Final = re.compile(r"[\"`\\#]")
_STAND_IN: Final = re.compile(r"'(text \d{4})'")
_TEXTS: Final = 1000
"""Number of different texts of a shape at most; stand-ins have four digits."""

_MOST: Final = 1000
"""Number of shapes kept; the least recently used is dropped first."""


class Shape:
    """Shape of patterns, compiled.

    Attributes:
        template: a pattern of this shape, with stand-ins for the texts.
        numbers: of the texts, by stand-in.
        automaton: that of the template, with parameters for the stand-ins.
        compile: compilation of a text in full.
    """

    def __init__(self, template: Compiled, stand_ins: list[str], compile: Callable[[str], Compiled]) -> None:  # noqa: A002
        self.template = template
        self.numbers = {each: number for number, each in enumerate(stand_ins)}
        self.automaton: Automaton = parameterised(template.automaton, self.numbers)
        self.compile = compile
        self.canonical_text = template.form.text
        self.text = template.text
        self._pieces: dict[str, tuple[list[str], list[int]]] = {}
        self._remembered: dict[object, Any] = {}

    def remembered(self, function: Callable[[Compiled], T]) -> T:
        """Result of a function of the template, computed once; it may hold stand-ins."""
        if function not in self._remembered:
            self._remembered[function] = function(self.template)
        found: T = self._remembered[function]
        return found

    def filled(self, text: str, texts: tuple[str, ...]) -> str:
        """A text about the template, such as its canonical form, with texts of a pattern for the stand-ins."""
        known = self._pieces.get(text)
        if known is None:
            pieces = _STAND_IN.split(text)
            known = self._pieces[text] = pieces, [self.numbers[each] for each in pieces[1::2]]
        pieces, numbers = known
        made = pieces.copy()
        made[1::2] = [format_value(texts[number]) for number in numbers]
        return "".join(made)


class ShapedPattern(Compiled):
    """A pattern of a known shape. What `Compiled` has as trees is compiled in full at the first request.

    Attributes:
        shape, texts: its shape, and its texts by number.
        written: the pattern as it was given.
    """

    # A node has one for each detector: no table of attributes, and no automaton, which engines keep.
    __slots__ = ("_id", "shape", "texts", "written")

    shape: Shape
    texts: tuple[str, ...]
    written: str
    _id: str

    def __init__(self, shape: Shape, texts: tuple[str, ...], written: str) -> None:
        for name, value in (("shape", shape), ("texts", texts), ("written", written), ("_id", "")):
            object.__setattr__(self, name, value)

    @property
    def throttlings(self) -> tuple[Throttling, ...]:
        return ()

    @property
    def publishes(self) -> EventType:
        return self.shape.template.publishes

    @property
    def epochs(self) -> bool:
        return self.shape.template.epochs

    def __getattr__(self, name: str) -> Any:
        if name in ("publication", "plain", "cut"):
            return getattr(self._full, name)
        raise AttributeError(name)

    @cached_property
    def _full(self) -> Compiled:
        return self.shape.compile(self.written)

    @property
    def form(self) -> CanonicalForm:
        return self._full.form

    @property
    def canonical_id(self) -> str:
        if not self._id:
            object.__setattr__(self, "_id", identified(self.shape.filled(self.shape.canonical_text, self.texts)))
        return self._id

    @property
    def structure(self) -> Automaton:
        return self.shape.automaton

    @property
    def automaton(self) -> Automaton:
        return self.shape.automaton.with_texts(self.canonical_id, self.texts)

    @property
    def text(self) -> str:
        # In another spelling (`written_as`) it has a tree.
        if "publication" in self.__dict__:
            return super().text
        return self.shape.filled(self.shape.text, self.texts)

    @property
    def publish_json(self) -> str:
        # Its text would be one that is not compared.
        return ""

    def reads(self, registry: TypeRegistry) -> frozenset[str] | None:
        return self.shape.template.reads(registry)

    def named(self) -> frozenset[str]:
        return self.shape.remembered(Compiled.named)

    def names(self) -> frozenset[str]:
        return self.shape.remembered(Compiled.names)

    def value(self, stand_in: Attribute) -> Attribute:
        """The text for a stand-in; anything else as it is."""
        number = self.shape.numbers.get(stand_in) if isinstance(stand_in, str) else None
        return stand_in if number is None else self.texts[number]


class ConsultedTypes(TypeRegistry):
    """Registry that records look-ups: `consulted`, by name, with None for a missing type."""

    def __init__(self, registry: TypeRegistry) -> None:
        self.consulted: dict[str, EventType | None] = {}
        super().__init__(registry, open=registry.open)
        # What is asked for while it is filled says nothing.
        self.consulted.clear()

    def unchanged(self, registry: TypeRegistry) -> bool:
        """Whether the types that were looked up are those of another registry."""
        return all(registry.find(name) == known for name, known in self.consulted.items())

    def find(self, name: str) -> EventType | None:
        found = self.consulted[name] = super().find(name)
        return found

    def get(self, name: str) -> EventType:
        self.find(name)
        return super().get(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def root(self, name: str) -> str:
        event_type = self.find(name)
        while event_type is not None and event_type.derived is not None:
            name = event_type.derived.base
            event_type = self.find(name)
        return name


class Shapes:
    """Shapes of the patterns that were checked, the last thousand; `compiled` counts them. A shape is valid while the
    event types looked up by its compilation are unchanged."""

    def __init__(self) -> None:
        self.compiled = 0
        # None for patterns that have no shape.
        self._known: dict[object, tuple[Shape | None, ConsultedTypes]] = {}

    def find(
        self,
        text: str,
        registry: TypeRegistry,
        *,
        definitions: Mapping[str, str] | None = None,
        consumption: Consumption = "ordered",
    ) -> ShapedPattern | None:
        """Pattern by its shape; None where it is to be compiled in full."""
        pieces = _TEXT.split(text)
        texts = pieces[1::2]
        named = definitions or {}
        if not texts or _UNCLEAR.search(text) or any("'" in each or '"' in each for each in named.values()):
            return None
        ordered = sorted(set(texts))
        if len(ordered) > _TEXTS:
            return None
        if len(ordered) > 1 and sorted(ordered, key=format_value) != ordered:
            return None
        numbers = {each: number for number, each in enumerate(ordered)}
        places = tuple(numbers[each] for each in texts)
        key = (tuple(pieces[::2]), places, tuple(named.items()), consumption)
        known = self._known.pop(key, None)
        if known is None or not known[1].unchanged(registry):
            consulted = ConsultedTypes(registry)
            known = self._shape(pieces, places, consulted, named, consumption), consulted
        # Ordered by last use.
        self._known[key] = known
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return None if known[0] is None else ShapedPattern(known[0], tuple(ordered), text)

    def _shape(
        self,
        pieces: list[str],
        places: tuple[int, ...],
        registry: TypeRegistry,
        definitions: Mapping[str, str],
        consumption: Consumption,
    ) -> Shape | None:
        stand_ins = [f"text {number:04}" for number in range(max(places) + 1)]
        made = pieces.copy()
        made[1::2] = [f"'{stand_ins[number]}'" for number in places]

        def compile(text: str) -> Compiled:  # noqa: A001
            return check_pattern(text, registry, definitions=definitions, consumption=consumption)

        self.compiled += 1
        try:
            template = compile("".join(made))
            if not _is_shape(template, set(stand_ins), len(places)):
                return None
            return Shape(template, stand_ins, compile)
        except DistcedError:
            # Compiled in full it says what is wrong, with its own texts.
            return None


def _is_shape(template: Compiled, stand_ins: set[str], count: int) -> bool:
    """Whether all texts of a pattern are stand-ins, each compared with something that is no constant."""
    if template.throttlings or template.plain.pattern != template.publication.pattern or template.automaton.parts:
        return False
    found = [text for expression in _expressions(template.publication) for text in _texts(expression, None)]
    return len(found) == count and all(text in stand_ins and compared for text, compared in found)


def _expressions(publication: Publication) -> Iterator[Expression]:
    for node in walk(publication.pattern):
        yield from expressions_of(node)
    yield from output_expressions(publication.output)


def _texts(expression: Expression, around: Expression | None) -> Iterator[tuple[str, bool]]:
    """Texts in an expression, and whether each is compared with something that is no constant."""
    if isinstance(expression, Literal) and isinstance(expression.value, str):
        compared = isinstance(around, Binary) and around.operator in COMPARISONS
        yield expression.value, compared and not all(isinstance(each, Literal) for each in children(around))  # type: ignore[arg-type]
    for child in children(expression):
        yield from _texts(child, expression)
