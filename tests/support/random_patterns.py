"""Random patterns and inputs, seeded, for the properties: small alphabets and small times, so that all collides."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from distced.detectors.language.private import read_by
from distced.middleware.model.clock_rules import every_clock
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MINUTE
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Calculated,
    Concatenation,
    Hidden,
    Init,
    Instant,
    Iteration,
    Keyed,
    Output,
    Parallel,
    Pattern,
    Publication,
    Quiet,
    Recurring,
    Relative,
    Scope,
    Selection,
    Sequence,
    Timing,
    When,
    Window,
    nullable,
    walk,
)
from distced.middleware.sets.describable import (
    AnySet,
    DescribableSet,
    Difference,
    Filtered,
    Intersection,
    TypeSet,
    Union,
)
from distced.middleware.sets.expressions import Binary, Call, Expression, Field, Literal, Moment, Name

TYPES = ("A", "B", "C")
FEATURES = frozenset(
    {
        "alternation",
        "parallel",
        "iteration",
        "timing",
        "scope",
        "hidden",
        "window",
        "key",
        "guard",
        "register",
        "output",
        "choice",
        "member",
        "local time",
        "calculated",
        "once",
        "settled",
        "take",
        "quiet",
    }
)
WITH_AGGREGATES = FEATURES | {"aggregate"}
"""Apart, so that seeds make the patterns that they made before."""


class PatternMaker:
    """Makes random patterns that pass the checks most of the time.

    Attributes:
        features: which rows of the language's table may occur.
        always: what is said of each pattern as a whole.
        types: types of events that it may read.
        variables, registers: what has been made so far, and so can be read.
        open: the registers whose `init` stands around the place at hand.
    """

    def __init__(
        self,
        random: Random,
        features: frozenset[str] = FEATURES,
        *,
        always: frozenset[str] = frozenset(),
        types: tuple[str, ...] = TYPES,
    ) -> None:
        self.random = random
        self.features = features
        self.always = always
        self.types = types
        self.timers = 0
        self.variables: list[str] = []
        self.registers: list[str] = []
        self.open: tuple[str, ...] = ()

    def publication(self, size: int) -> Publication:
        pattern = self.pattern(size, ())
        random = self.random
        if "register" in self.features and random.random() < 0.25:
            pattern = self.init(size, ())
        if "window" in self.features and random.random() < 0.2:
            pattern = Window(pattern, random.randrange(8))
        if "key" in self.features and random.random() < 0.2:
            pattern = Keyed(pattern, ("k",))
        output = None
        if "output" in self.features and random.random() < 0.3:
            attributes: list[tuple[str, Expression]] = [("one", Literal(1))]
            attributes += [(f"of_{name}", Field(name, "v")) for name in dict.fromkeys(self.variables)]
            attributes += [(f"count_{name}", Name(name)) for name in self.registers]
            if isinstance(pattern, Keyed) and random.random() < 0.5:
                attributes.append(("key", Name("k")))
            if self.timers and random.random() < 0.5:
                # Tells recurrences apart.
                attributes.append(("at", Moment("hi", "")))
            if "aggregate" in self.features and self.variables:
                attributes += [(f"over_{place}", self.aggregate()) for place in range(random.randrange(1, 4))]
            condition: Expression | None = None
            if random.random() < 0.4:
                condition = Binary("<", Name(attributes[-1][0]), Literal(2))
            elif "member" in self.features and random.random() < 0.2:
                condition = Call("in", (Name(attributes[-1][0]), Literal(0), Literal(2), Literal(None)))
            output = Output("Out", tuple(attributes), condition)
        publication = Publication(pattern, output, once=self.said("once", 0.1))
        # Drawn apart, so that seeds make the patterns that they made before.
        apart = Random(f"settled {publication}")
        publication = replace(publication, settled=self.said("settled", 0.1, apart))
        publication = self.taking(publication, Random(f"take {publication}"))
        return self.quietened(publication, Random(f"quiet {publication}"))

    def quietened(self, publication: Publication, random: Random) -> Publication:
        """The pattern, perhaps with a quiet time behind its composite events."""
        if not self.said("quiet", 0.1, random):
            return publication
        output = publication.output or Output("Out")
        names = [name for name, _ in output.attributes]
        by = tuple(random.sample(names, min(len(names), random.choice((0, 1, 1, 2)))))
        return replace(publication, output=replace(output, quiet=Quiet(random.randrange(1, 6), by)))

    def taking(self, publication: Publication, random: Random) -> Publication:
        """The pattern, perhaps with a selection among its matches."""
        if not self.said("take", 0.1, random):
            return publication
        output = publication.output or Output("Out")
        variables = list(dict.fromkeys(self.variables))
        take = []
        for name in random.sample(variables, min(len(variables), random.randrange(3))):
            kind = random.choice(["first", "last", "first", "last", "each", "where"])
            condition = None
            if kind == "where":
                condition = Binary("<", Field(random.choice(variables), "v"), Literal(2))
                if output.attributes and random.random() < 0.3:
                    condition = Binary("<", Name(output.attributes[-1][0]), Literal(2))
            take.append(Selection(kind, name, condition))
        consuming = random.choice(["", "variables", "variables", "all"] if variables else ["all"])
        if not (take or consuming):
            consuming = "all"
        return replace(publication, output=replace(output, take=tuple(take), consuming=consuming))

    def said(self, feature: str, share: float, random: Random | None = None) -> bool:
        """Whether something is said of the whole pattern."""
        return feature in self.always or (feature in self.features and (random or self.random).random() < share)

    def pattern(self, size: int, timers: tuple[str, ...]) -> Pattern:
        random = self.random
        if size <= 1:
            return self.atom(timers)
        choices = ["concatenation", "sequence", "concatenation", "sequence"]
        choices += sorted(self.features & {"alternation", "iteration", "timing", "scope", "hidden", "parallel"})
        choices += [each for each in ("window", "key", "register") if each in self.features and random.random() < 0.3]
        match random.choice(choices):
            case "concatenation":
                return Concatenation(self.parts(size, timers))
            case "sequence":
                return Sequence(self.parts(size, timers))
            case "alternation":
                return Alternation(self.parts(size, timers))
            case "parallel":
                left, right = self.sides(size)
                return Parallel(left, right)
            case "iteration":
                least, most = random.choice([(0, None), (1, None), (0, 1), (1, 2), (2, 2), (0, 2), (2, None)])
                return Iteration(self.pattern(size - 1, timers), least, most)
            case "timing":
                first = self.pattern(max(1, size // 2), timers)
                if nullable(first):
                    first = Concatenation((first, self.atom(timers)))
                self.timers += 1
                timer = f"T{self.timers}"
                roll = random.random()
                when: When = Relative(random.randrange(5)) if roll < 0.7 else Instant(random.randrange(8))
                if roll > 0.85:
                    when = Recurring(Relative(random.randrange(1, 5)))
                when = self.calculated(first) or when
                return Timing(first, self.pattern(max(1, size - size // 2), (*timers, timer)), timer, when)
            case "scope":
                return Scope(self.pattern(size - 1, timers), self.set(timers))
            case "hidden":
                return Hidden(self.pattern(size - 1, timers))
            case "window":
                return Window(self.pattern(size - 1, timers), random.randrange(6))
            case "register":
                return self.init(size - 1, timers)
            case _:
                return Keyed(self.pattern(size - 1, timers), ("k",))

    def calculated(self, first: Pattern) -> When | None:
        """A delay calculated of a variable of the first part, perhaps."""
        # Drawn apart, so that seeds make the patterns that they made before.
        apart = Random(f"delay {first}")
        bound = [node.variable for node in walk(first) if isinstance(node, Atom) and node.variable]
        if "calculated" not in self.features or not bound or apart.random() < 0.5:
            return None
        value: Expression = Field(apart.choice(bound), "v")
        match apart.randrange(4):
            case 0:
                value = Binary(apart.choice("+-*/"), value, Literal(apart.randrange(3)))
            case 1:
                value = Binary("-", Moment("hi", apart.choice(bound)), Moment("lo", apart.choice(bound)))
            case _:
                pass
        return Calculated(value)

    def init(self, size: int, timers: tuple[str, ...]) -> Pattern:
        """A pattern with a register that begins again on each entry."""
        random = self.random
        name = random.choice(("n", "m"))
        if name in self.open:
            return self.pattern(size, timers)
        initial: Expression = Literal(random.randrange(2))
        if self.variables and random.random() < 0.3:
            initial = Field(random.choice(self.variables), "v")
        elif self.registers and random.random() < 0.3:
            initial = Name(random.choice(self.registers))
        outer = self.open
        self.open = (*outer, name)
        self.registers = [*dict.fromkeys((*self.registers, name))]
        body = self.pattern(size, timers)
        self.open = outer
        return Init(((name, initial),), body)

    def parts(self, size: int, timers: tuple[str, ...]) -> tuple[Pattern, ...]:
        first = self.random.randrange(1, size)
        return (self.pattern(first, timers), self.pattern(size - first, timers))

    def sides(self, size: int) -> tuple[Pattern, Pattern]:
        # A side sees nothing from outside: its variables and registers are its own.
        outer = self.variables, self.registers
        made: list[Pattern] = []
        for share in (size // 2, size - size // 2):
            self.variables, self.registers = [], []
            made.append(self.pattern(max(1, share), ()))
        self.variables, self.registers = outer
        return made[0], made[1]

    def atom(self, timers: tuple[str, ...]) -> Atom:
        random = self.random
        guarded = "guard" in self.features
        label = self.guarded(self.set(timers)) if guarded and random.random() < 0.3 else self.set(timers)
        domain = None
        if random.random() < 0.5:
            domain = self.guarded(self.set(timers)) if guarded and random.random() < 0.2 else self.set(timers)
            if random.random() < 0.7:
                domain = Union((domain, label))
        variable = ""
        if guarded and random.random() < 0.3:
            variable = random.choice(("x", "y"))
            self.variables.append(variable)
        updates: tuple[tuple[str, Expression], ...] = ()
        if self.registers and random.random() < 0.5:
            step: Expression = Field(variable, "v") if variable and random.random() < 0.5 else Literal(1)
            register = random.choice(self.registers)
            value = Binary("+", Name(register), step) if random.random() < 0.7 else Call("max", (Name(register), step))
            if "choice" in self.features and random.random() < 0.3:
                value = Call("if", (Binary("<", Name(register), Literal(random.randrange(3))), value, step))
            if "aggregate" in self.features and self.variables and random.random() < 0.4:
                value = self.aggregate()
            updates = ((register, value),)
        return Atom(label, domain, variable, updates)

    def aggregate(self) -> Expression:
        """An aggregate over the events of a variable."""
        random = self.random
        variable = random.choice(self.variables)
        value: Expression = Field(variable, random.choice(("v", "v", "k")))
        if random.random() < 0.2:
            value = Binary(random.choice(("+", "-", "/")), Literal(random.randrange(3)), value)
        function = random.choice(
            ("count", "count", "sum", "avg", "min", "max", "first", "last", "nth", "distinct", "collect")
        )
        match function:
            case "count":
                return Call("count", (random.choice((Moment("hi", variable), value)),))
            case "nth":
                return Call("nth", (value, Literal(random.choice((1, 2, 3, -1, -2, -3)))))
            case "distinct" | "collect":
                return Call(function, (value, Literal(random.randrange(1, 4))))
            case _:
                return Call(function, (value,))

    def guarded(self, described: DescribableSet) -> DescribableSet:
        random = self.random
        operator = random.choice(("==", "!=", "<", "<=", ">"))
        right: Expression = Literal(random.randrange(3))
        if self.variables and random.random() < 0.6:
            right = Field(random.choice(self.variables), "v")
        elif self.registers and random.random() < 0.4:
            right = Name(random.choice(self.registers))
        if "aggregate" in self.features and self.variables and random.random() < 0.4:
            right = self.aggregate()
        if "choice" in self.features and random.random() < 0.1:
            right = Call("if", (Binary("==", Name("k"), Literal(random.randrange(2))), right, Literal(1)))
        apart = Random(f"local {described} {operator} {right}")
        if "local time" in self.features and apart.random() < 0.1:
            of = apart.choice(["", *self.variables])
            instant = Binary("*", Moment(apart.choice(("lo", "hi")), of), Literal(25 * MINUTE))
            right = Call(apart.choice(("hour", "minute")), (instant, Literal(apart.choice(("UTC", "Asia/Kolkata")))))
        if "member" in self.features and random.random() < 0.1:
            return Filtered(described, Call("in", (Name("v"), right, Literal(random.randrange(3)))))
        return Filtered(described, Binary(operator, Name("v"), right))

    def set(self, timers: tuple[str, ...]) -> DescribableSet:
        random = self.random
        roll = random.random()
        if timers and roll < 0.3:
            return TypeSet(random.choice(timers))
        if roll < 0.75:
            return TypeSet(random.choice(self.types))
        if roll < 0.9:
            members = random.sample(self.types + timers, 2)
            return Union(tuple(TypeSet(each) for each in members))
        if roll < 0.93:
            return AnySet()
        if roll < 0.97:
            return Difference(AnySet(), TypeSet(random.choice(self.types)))
        return Intersection(AnySet(), TypeSet(random.choice(self.types)))


def with_privates(random: Random, size: int, features: frozenset[str] = FEATURES) -> Publication:
    """A random pattern that reads private publications, and these one another, perhaps."""
    types: tuple[str, ...] = TYPES
    privates: list[Publication] = []
    for name in ("P", "Q")[: random.randrange(1, 3)]:
        maker = PatternMaker(random, features, types=types)
        made = maker.publication(random.randrange(1, size + 1))
        value: Expression = Field(random.choice(maker.variables), "v") if maker.variables else Literal(1)
        output = made.output or Output(name)
        further = (("v", value), ("k", Literal(random.choice((0, 1, 1, None)))))
        attributes = (*output.attributes, *(each for each in further if random.random() < 0.7))
        consumption = random.choice(("", "", "", "epoch", "ordered"))
        output = replace(output, type_name=name, attributes=attributes)
        privates.append(replace(made, output=output, consumption=consumption))
        # Read often, so that few are left out.
        types = (*types, name, name)
    made = PatternMaker(random, features, types=types).publication(random.randrange(1, size + 1))
    return replace(made, privates=read_by(made.pattern, privates))


def with_clocks(
    random: Random, size: int, features: frozenset[str] = FEATURES, *, further: tuple[str, ...] = ()
) -> Publication:
    """A pattern that reads clocks, and `further` types, mostly behind an event, as no match begins with a clock."""
    published = (*TYPES[:2], *further)
    clocks = tuple(every_clock(each) for each in random.sample((1, 2, 3, 4, 7), random.choice((1, 1, 2))))
    made = PatternMaker(random, features, types=(*published, *clocks)).publication(size)
    return made if random.random() < 0.3 else behind(random, made, published)


def behind(random: Random, made: Publication, types: tuple[str, ...]) -> Publication:
    """The pattern behind an event of one of these types."""
    first = Atom(TypeSet(random.choice(types)))
    joint = random.choice((Concatenation, Sequence))

    def put(pattern: Pattern) -> Pattern:
        if isinstance(pattern, Keyed | Window | Init):
            return replace(pattern, body=put(pattern.body))
        return joint((first, pattern))

    pattern = put(made.pattern)
    if random.random() < 0.2 and not isinstance(pattern, Keyed):
        pattern = Keyed(pattern, ("k",))
    return replace(made, pattern=pattern)


def make_events(random: Random, count: int, *, span: int = 10, width: int = 3) -> list[Event]:
    """Events of few types at few instants, in order of consumption; every second one is an interval."""
    events = []
    for seq in range(count):
        hi = random.randrange(span)
        lo = hi - random.randrange(width) if random.random() < 0.5 else hi
        attributes = {"k": random.choice((0, 1, 1, None)), "v": random.randrange(3)}
        events.append(Event(random.choice(TYPES), lo, hi, "e", seq, attributes))
    return sorted(events, key=lambda event: event.key)
