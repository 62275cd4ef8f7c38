"""Compilation by shape: patterns that differ in constants of comparisons alone are compiled once.

Ten thousand subscriptions that each name a device and a threshold are one *shape*, with holes for the constants: texts,
and numbers behind a comparison operator. A shape is compiled with stand-ins in the holes. Checks, the canonical form
and the automaton depend on constants by their kind and by the order of their texts alone, and by which of them are
equal: so stand-ins are in the order of the constants, and another order is another shape. A pattern of a known shape
costs some microseconds, and shares the automaton (`detectors.automata.parameters`); its trees are made on demand, by
compiling it in full.

Left to full compilation are patterns with texts elsewhere than in comparisons of an attribute, in definitions or in
derived types, sides of `&`, and throttled types. Numbers stay part of the shape where another number is compared that
is no hole, as in a derived type, or left of the operator. Rejected: substitution in the trees of a compiled pattern, as
slow as compiling it.
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
from distced.detectors.language.consulted_types import ConsultedTypes
from distced.detectors.language.derived import Throttling
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Attribute
from distced.middleware.model.published_types import PublishedType
from distced.middleware.patterns.tree import Publication, expressions_of, output_expressions, walk
from distced.middleware.sets.expressions import COMPARISONS, Binary, Call, Expression, Literal, children, format_value

T = TypeVar("T")

_CONSTANT: Final = re.compile(
    r"'[^'\\\n\t]*'"
    # Behind a comparison operator, and not the beginning of a calculation or of a duration.
    r"|(?:[=!<>]=|[<>]) *(-?\d{1,15}(?:\.\d{1,15})?)(?![\w.]| *[-+*/%])"
)
_UNCLEAR: Final = re.compile(r"[\"`\\#]")
_FIRST_NUMBER: Final = 7_310_264_100_000
"""Stand-ins of numbers: of as many digits each, so their texts are in their order, and unlikely in a pattern."""
_STAND_IN: Final = re.compile(r"('text \d{4}'|\b73102641\d{5}\b)")
_CONSTANTS: Final = 1000
"""Number of different constants of a shape at most; stand-ins of texts have four digits."""

_MOST: Final = 1000
"""Number of shapes kept; the least recently used is dropped first."""


class Shape:
    """Shape of patterns, compiled.

    Attributes:
        template: a pattern of this shape, with stand-ins for the constants.
        numbers: of the constants, by stand-in.
        automaton: that of the template, with parameters for the stand-ins.
        compile: compilation of a text in full.
    """

    def __init__(
        self,
        template: Compiled,
        stand_ins: list[Attribute],
        compile: Callable[[str], Compiled],  # noqa: A002
    ) -> None:
        self.template = template
        self.numbers = {each: number for number, each in enumerate(stand_ins)}
        self.automaton: Automaton = parameterised(template.automaton, self.numbers)
        self.compile = compile
        self.canonical_text = template.form.text
        self.text = template.text
        self._written = {format_value(each): number for each, number in self.numbers.items()}
        self._pieces: dict[str, tuple[list[str], list[int]]] = {}
        self._remembered: dict[object, Any] = {}

    def remembered(self, function: Callable[[Compiled], T]) -> T:
        """Result of a function of the template, computed once; it may hold stand-ins."""
        if function not in self._remembered:
            self._remembered[function] = function(self.template)
        found: T = self._remembered[function]
        return found

    def filled(self, text: str, constants: tuple[Attribute, ...]) -> str:
        """A text about the template, such as its canonical form, with constants of a pattern for the stand-ins."""
        known = self._pieces.get(text)
        if known is None:
            pieces = _STAND_IN.split(text)
            known = self._pieces[text] = pieces, [self._written[each] for each in pieces[1::2]]
        pieces, numbers = known
        made = pieces.copy()
        made[1::2] = [format_value(constants[number]) for number in numbers]
        return "".join(made)


class ShapedPattern(Compiled):
    """A pattern of a known shape. What `Compiled` has as trees is compiled in full at the first request.

    Attributes:
        shape, constants: its shape, and its constants by number.
        written: the pattern as it was given.
    """

    # A node has one for each detector: no table of attributes, and no automaton, which engines keep.
    __slots__ = ("_id", "_respelled", "constants", "shape", "written")

    shape: Shape
    constants: tuple[Attribute, ...]
    written: str
    _id: str
    _respelled: bool

    def __init__(self, shape: Shape, constants: tuple[Attribute, ...], written: str) -> None:
        for name, value in (("shape", shape), ("constants", constants), ("written", written), ("_id", "")):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_respelled", False)

    @property
    def throttlings(self) -> tuple[Throttling, ...]:
        return ()

    @property
    def clocked(self) -> bool:
        return False

    @property
    def publishes(self) -> EventType:
        return self.shape.template.publishes

    @property
    def published(self) -> PublishedType:
        return self.shape.template.published

    @property
    def epochs(self) -> bool:
        return self.shape.template.epochs

    @property
    def once(self) -> bool:
        return self.shape.template.once

    @property
    def settled(self) -> bool:
        return self.shape.template.settled

    @property
    def selects(self) -> bool:
        return self.shape.template.selects

    @property
    def quiet(self) -> bool:
        return self.shape.template.quiet

    @property
    def endless(self) -> bool:
        return self.shape.template.endless

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
            object.__setattr__(self, "_id", identified(self.shape.filled(self.shape.canonical_text, self.constants)))
        return self._id

    @property
    def structure(self) -> Automaton:
        return self.shape.automaton

    @property
    def automaton(self) -> Automaton:
        return self.shape.automaton.with_constants(self.canonical_id, self.constants)

    @property
    def text(self) -> str:
        # In another spelling it has a tree. To look for that among the attributes would make a table of them.
        if self._respelled:
            return super().text
        return self.shape.filled(self.shape.text, self.constants)

    @property
    def publish_json(self) -> str:
        # Its text would be one that is not compared.
        return ""

    def written_as(self, publication: Publication) -> Compiled:
        other = super().written_as(publication)
        object.__setattr__(other, "_respelled", True)
        return other

    def reads(self, registry: TypeRegistry) -> frozenset[str] | None:
        return self.shape.template.reads(registry)

    def named(self) -> frozenset[str]:
        return self.shape.remembered(Compiled.named)

    def names(self) -> frozenset[str]:
        return self.shape.remembered(Compiled.names)

    def value(self, stand_in: Attribute) -> Attribute:
        """The constant for a stand-in; anything else as it is."""
        number = self.shape.numbers.get(stand_in) if type(stand_in) in (str, int) else None
        return stand_in if number is None else self.constants[number]


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
        named = definitions or {}
        for written, key in _spellings(text, named, consumption):
            known = self._known.pop(key, None)
            if known is None or not known[1].unchanged(registry):
                consulted = ConsultedTypes(registry)
                known = self._shape(written, consulted, named, consumption), consulted
            # Ordered by last use.
            self._known[key] = known
            if len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
            if known[0] is not None:
                return ShapedPattern(known[0], written.constants, text)
        return None

    def knows(
        self, text: str, registry: TypeRegistry, *, definitions: Mapping[str, str], consumption: Consumption
    ) -> bool:
        """Whether a pattern is of a known shape."""
        for _, key in _spellings(text, definitions, consumption):
            known = self._known.get(key)
            if known is None or not known[1].unchanged(registry):
                return False
            if known[0] is not None:
                return True
        return False

    def absorb(self, other: Shapes) -> None:
        """Take the shapes of another one."""
        self.compiled += other.compiled
        self._known |= other._known
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]

    def _shape(
        self,
        written: _Written,
        registry: TypeRegistry,
        definitions: Mapping[str, str],
        consumption: Consumption,
    ) -> Shape | None:
        def compile(text: str) -> Compiled:  # noqa: A001
            return check_pattern(text, registry, definitions=definitions, consumption=consumption)

        self.compiled += 1
        stand_ins = written.stand_ins
        try:
            template = compile(written.template(stand_ins))
            if not _is_shape(template, set(stand_ins), len(written.places)):
                return None
            return Shape(template, stand_ins, compile)
        except DistcedError:
            # Compiled in full it says what is wrong, with its own constants.
            return None


def _spellings(
    text: str, named: Mapping[str, str], consumption: Consumption
) -> Iterator[tuple[_Written, tuple[object, ...]]]:
    """A pattern taken apart at its constants, with the key of its shape; then without those that are numbers."""
    if _UNCLEAR.search(text) or any("'" in each or '"' in each for each in named.values()):
        return
    for numbers in (True, False):
        written = _Written(text, numbers=numbers)
        if not written.usable or (not numbers and not written.dropped):
            return
        yield written, (tuple(written.between), tuple(written.places), tuple(named.items()), consumption)


class _Written:
    """A pattern as text, taken apart at its constants.

    Attributes:
        between: the text around them, one piece more than there are.
        constants: the different ones, texts and then numbers, in the order of their texts.
        places: their numbers, as they occur.
        dropped: whether there are numbers that could be holes, with `numbers` False.
        usable: whether there are constants, not too many, and their order is clear.
    """

    __slots__ = ("between", "constants", "dropped", "places", "usable")

    def __init__(self, text: str, *, numbers: bool) -> None:
        self.between: list[str] = []
        self.dropped = False
        found: list[str] = []
        values: dict[str, Attribute] = {}
        end = 0
        for match in _CONSTANT.finditer(text):
            start, written = match.start(1), match[1]
            if written is None:
                start, written = match.start(), match[0]
            else:
                value = float(written) if "." in written else int(written)
                if repr(value) != written:
                    continue
                if not numbers:
                    self.dropped = True
                    continue
                values[written] = value
            self.between.append(text[end:start])
            found.append(written)
            end = match.end()
        self.between.append(text[end:])
        # By their texts, as conditions are ordered by theirs; quotes come before digits.
        places = {each: number for number, each in enumerate(sorted(set(found)))}
        texts = [each[1:-1] for each in places if each[0] == "'"]
        self.constants: tuple[Attribute, ...] = (*texts, *(values[each] for each in places if each[0] != "'"))
        self.places = [places[each] for each in found]
        self.usable = 0 < len(places) <= _CONSTANTS and (len(texts) < 2 or sorted(texts) == texts)

    @property
    def stand_ins(self) -> list[Attribute]:
        """A stand-in for each constant, of the same kind."""
        return [
            f"text {number:04}" if isinstance(each, str) else _FIRST_NUMBER + number
            for number, each in enumerate(self.constants)
        ]

    def template(self, stand_ins: list[Attribute]) -> str:
        """The pattern with stand-ins in the places of the constants."""
        pieces = [self.between[0]]
        for place, text in zip(self.places, self.between[1:], strict=True):
            pieces += (format_value(stand_ins[place]), text)
        return "".join(pieces)


def _is_shape(template: Compiled, stand_ins: set[Attribute], count: int) -> bool:
    """Whether all texts of a pattern are stand-ins, and all compared numbers of its canonical form if any is, each
    compared with something that is no constant."""
    if (
        template.throttlings
        or template.clocked
        or template.plain.pattern != template.publication.pattern
        or template.automaton.parts
    ):
        return False
    found = _constants(template.publication)
    wanted = [(value, compared) for value, compared in found if isinstance(value, str) or value in stand_ins]
    if len(wanted) != count or not all(value in stand_ins and compared for value, compared in wanted):
        return False
    if all(isinstance(each, str) for each in stand_ins):
        return True
    # Another number would have another place among the conditions, which are ordered by their texts.
    return all(value in stand_ins for value, compared in _constants(template.form.publication) if compared)


def _constants(publication: Publication) -> list[tuple[str | float, bool]]:
    """Texts and numbers in the expressions of a pattern, and whether each is compared with something that is no
    constant."""
    nodes = (each for node in walk(publication.pattern) for each in expressions_of(node))
    return [each for expression in (*nodes, *output_expressions(publication.output)) for each in _in(expression, None)]


def _in(expression: Expression, around: Expression | None) -> Iterator[tuple[str | float, bool]]:
    """Texts and numbers in an expression, and whether each is compared with something that is no constant."""
    if isinstance(expression, Literal) and type(expression.value) in (str, int, float):
        compared = (isinstance(around, Binary) and around.operator in COMPARISONS) or (
            isinstance(around, Call) and around.function == "in"
        )
        value: str | float = expression.value  # type: ignore[assignment]
        yield value, compared and not all(isinstance(each, Literal) for each in children(around))  # type: ignore[arg-type]
    for child in children(expression):
        yield from _in(child, expression)
