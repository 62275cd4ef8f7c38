"""Parser of sentences into core patterns (frontends, section 8; composite-event-framework-2004, Fig. 3, Further Work).

Words of sentences are no keywords: each counts where it may come, so that any of them may be the name of a type or an
attribute as well; and an error names the words that may come. A full stop is one that no name follows at once, since
`door.room` is an attribute. Sentences have no tree of their own: each phrase is a core pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from distced.detectors.frontends.lexicon import LanguageScanner, Lexicon
from distced.detectors.frontends.made_names import MadeNames
from distced.detectors.frontends.pretty.named_sets import MOST_PARTS, count_parts, refuse_parts
from distced.detectors.language.depth import check_depth, check_output_depth
from distced.detectors.language.expression_parser import ExpressionParser
from distced.detectors.language.scanner import Word
from distced.middleware.model.errors import PatternError
from distced.middleware.patterns.operands import CLOCK_TIME, clock_time
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Concatenation,
    Hidden,
    Iteration,
    Keyed,
    Output,
    Parallel,
    Pattern,
    Publication,
    Relative,
    Scope,
    Sequence,
    TimeOfDay,
    Timing,
    When,
    Window,
)
from distced.middleware.sets.describable import AnySet, DescribableSet, Difference, Filtered, TypeSet, Union
from distced.middleware.sets.expressions import Expression, Span

_MOST_TIMES: Final = 10_000
_DURATION: Final = 'a duration such as "5min"'
_CLOCK: Final = 'a time of day such as "19:00"'
_ZONE: Final = re.compile(r" *([^\s'\"]+)")
_NAME_FOLLOWS: Final = re.compile(r"[^\W\d]|`")


class PrettyScanner(LanguageScanner):
    """Scanner of sentences."""

    lexicon = Lexicon(
        frozenset(("and", "or", "not", "true", "false", "null", "inf")),
        (*"(){},:.*/%+-", "==", "!=", "<", "<=", ">", ">="),
        any_case=True,
        spellings={"=": "==", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="},
        contextual=(
            *("report", "when", "is", "followed", "by", "overlapped", "then", "within", "until", "every", "before"),
            *("with", "no", "in", "between", "overall", "for", "each", "at", "least", "one", "to", "times", "of"),
            *("any", "number", "event", "but", "other", "than", "as", "where"),
        ),
    )

    def unexpected(self, advice: str | None = None) -> PatternError:
        """An error at the current word, with the words that may come."""
        word = self.word
        given = self.text[word.start : word.end] if word.kind != "end" else "the end"
        expected = ", ".join(dict.fromkeys(self.expected))
        problem = f"unexpected {given}, expected: {expected}" if expected else f"unexpected {given}"
        return self.error(problem, self.rest(), advice=advice or self.near_miss())

    def _read(self, position: int) -> Word:
        word = super()._read(position)
        if word.kind == "sign" and word.text == "." and not _NAME_FOLLOWS.match(self.text, word.end, self.end):
            return word._replace(kind="stop")
        return word


@dataclass(frozen=True)
class Sentences:
    """Sentences of a text: sets that it names, and what is detected."""

    sets: dict[str, DescribableSet] = field(default_factory=dict)
    publications: list[Publication] = field(default_factory=list)


@dataclass(frozen=True)
class _Link:
    """Link of a chain to its next step.

    Attributes:
        strong: whether the step begins after the end of what precedes.
        when: time up to which it comes; None for any time.
        timer: name of the time event.
    """

    step: Pattern
    strong: bool = True
    when: When | None = None
    timer: str = ""


def parse(text: str, sets: Mapping[str, DescribableSet] | None = None) -> Sentences:
    """The sentences of a text; `sets` are those that it names, None while they are not known. Raises `PatternError`."""
    return SentenceParser(PrettyScanner(text), sets).sentences()


class SentenceParser(ExpressionParser):
    """Parser of a text; conditions and values are core expressions."""

    def __init__(self, scanner: PrettyScanner, sets: Mapping[str, DescribableSet] | None = None) -> None:
        super().__init__(scanner)
        self._known = sets is not None
        self._sets = sets or {}
        # What the names that have been read stand for.
        self._parts = 0
        # Any word of the text may be a name in it.
        self._names = MadeNames(re.findall(r"\w+", scanner.text))

    def sentences(self) -> Sentences:
        """Definitions, reports and phrases up to the end."""
        found = Sentences()
        while self.scanner.word.kind != "end":
            if self._at_definition():
                self._definition(found.sets)
            elif self._take("report"):
                found.publications.append(self._report())
            else:
                phrase = self._phrase()
                found.publications.append(Publication(phrase))
                check_depth(phrase, text=self.scanner.text)
            if self.scanner.word.kind != "end":
                self._stop()
        return found

    def _at_definition(self) -> bool:
        following = self.scanner.peek() if self.scanner.word.kind in ("name", "string") else None
        return following is not None and following.kind == "name" and following.text.lower() == "is"

    def _definition(self, sets: dict[str, DescribableSet]) -> None:
        """`"light on" is Light where on`."""
        word = self.scanner.next()
        if word.text in sets:
            raise self.scanner.error("defined twice", Span(word.start, word.end), given=word.text)
        self._expect("is")
        start = self.scanner.word.start
        members = [self._event()]
        while self._take("or"):
            members.append(self._event())
        sets[word.text] = members[0] if len(members) == 1 else Union(tuple(members), span=self._span(start))
        check_depth(sets[word.text], text=self.scanner.text)

    def _report(self) -> Publication:
        """`Report Cold(room = door.room) when ...`, behind its first word."""
        start = self.scanner.previous.start
        name = self.scanner.expect_kind("name", "a name for what is reported").text
        attributes: dict[str, Expression] = {}
        if self.scanner.take("("):
            while not self.scanner.at(")"):
                if attributes:
                    self.scanner.expect(",")
                word = self.scanner.expect_kind("name", "an attribute")
                if word.text in attributes:
                    raise self.scanner.error("given twice", Span(word.start, word.end), given=word.text)
                self.scanner.expect("==")
                with self._enclosed():
                    attributes[word.text] = self.expression()
            self.scanner.expect(")")
        output = Output(name, tuple(attributes.items()), span=self._span(start))
        self._expect("when")
        pattern = self._phrase()
        check_depth(pattern, text=self.scanner.text)
        check_output_depth(output, text=self.scanner.text)
        return Publication(pattern, output)

    # Phrases, loosest first.

    def _phrase(self) -> Pattern:
        start = self.scanner.word.start
        with self._deeper():
            pattern = self._alternatives()
        if self._take("overall"):
            self._expect("within")
            pattern = Window(pattern, self._time(), span=self._span(start))
        if self._take("for"):
            self._expect("each")
            attributes = [self.scanner.expect_kind("name", "an attribute").text]
            while self._take("and"):
                attributes.append(self.scanner.expect_kind("name", "an attribute").text)
            pattern = Keyed(pattern, tuple(attributes), span=self._span(start))
        return pattern

    def _alternatives(self) -> Pattern:
        start = self.scanner.word.start
        parts = [self._both()]
        while self._take("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts), span=self._span(start))

    def _both(self) -> Pattern:
        start = self.scanner.word.start
        made = self._chain()
        while self._take("and"):
            made = Parallel(made, self._chain(), span=self._span(start))
        return made

    def _chain(self) -> Pattern:
        """Steps in their order, with nothing in between where that is said."""
        start = self.scanner.word.start
        made, links = self._step(), list[_Link]()
        while link := self._link():
            links.append(link)
        between = None
        if links and self._take("with"):
            self._expect("no")
            between = self._event()
            self._expect("in")
            self._expect("between")
        flat = ""
        for link in links:
            step, span = link.step, self._span(start)
            if between is not None:
                step = Scope(step, between, span=step.span)
            if link.when is not None:
                made, flat = Timing(made, step, link.timer, link.when, span=span), ""
                continue
            joint = Sequence if link.strong else Concatenation
            # Of the steps of this chain, not of a phrase in parentheses.
            parts = made.parts if flat == joint.__name__ and isinstance(made, joint) else (made,)
            made, flat = joint((*parts, step), span=span), joint.__name__
        return made

    def _link(self) -> _Link | None:
        """`followed by X within ...`, or `not followed by X within ...`; None at the end of a chain."""
        start = self.scanner.word.start
        if self._take("not"):
            self._expect("followed")
            self._expect("by")
            event = self._event()
            when = self._limit()
            if when is None:
                raise self.scanner.unexpected()
            timer = self._names.make("T")
            label = TypeSet(timer)
            absence = Atom(label, Union((label, event)), span=self._span(start))
            return _Link(absence, when=when, timer=timer)
        strong = True
        if not self._take("then"):
            if not self._take("followed"):
                return None
            if not self._take("by"):
                self._expect("or")
                self._expect("overlapped")
                self._expect("by")
                strong = False
        step = self._every() if strong and self._take("every") else self._step()
        when = self._limit()
        return _Link(step, strong, when, self._names.make("T") if when is not None else "")

    def _every(self) -> Pattern:
        """Each later event, the others skipped: `~[Y]* [Y]`."""
        start = self.scanner.word.start
        event = self._event()
        variable = self._variable()
        span = self._span(start)
        skipped = Hidden(Iteration(Atom(event, span=span), 0, None, span=span), span=span)
        return Concatenation((skipped, Atom(event, None, variable, span=span)), span=span)

    def _limit(self) -> When | None:
        if self._take("within"):
            return Relative(self._time())
        return self._clock() if self._take("until", "by") else None

    # Steps.

    def _step(self) -> Pattern:
        """An item, perhaps several times."""
        start = self.scanner.word.start
        times = self._times()
        item = self._item()
        return item if times is None else Iteration(item, *times, span=self._span(start))

    def _times(self) -> tuple[int, int | None] | None:
        scanner, start = self.scanner, self.scanner.word.start
        if self._at_both("any", "number"):
            scanner.next()
            self._expect("number")
            self._expect("of")
            return (0, None)
        if self._at_both("at", "least"):
            scanner.next()
            self._expect("least")
            if self._take("one"):
                return (1, None)
            least = self._number_of_times()
            self._expect("times")
            return (least, None)
        if not scanner.at_kind("number"):
            return None
        least = most = self._number_of_times()
        if self._take("to"):
            most = self._number_of_times()
        self._expect("times")
        if most < least or most == 0:
            given = scanner.text[start : scanner.previous.end]
            raise scanner.error(
                "not a number of times", self._span(start), given=given, allowed="1 times, 2 to 3 times"
            )
        return (least, most)

    def _number_of_times(self) -> int:
        word = self.scanner.expect_kind("number", "a whole number")
        if not word.text.isdigit() or len(word.text) > len(str(_MOST_TIMES)) or int(word.text) > _MOST_TIMES:
            place, allowed = Span(word.start, word.end), f"0 to {_MOST_TIMES}"
            raise self.scanner.error("not a number of times", place, given=word.text, allowed=allowed)
        return int(word.text)

    def _item(self) -> Pattern:
        scanner, start = self.scanner, self.scanner.word.start
        if scanner.take("("):
            with self._enclosed():
                inner = self._phrase()
            scanner.expect(")")
            return inner
        event = self._event()
        if self._take("before"):
            domain = Union((event, self._event()), span=self._span(start))
            return Atom(event, domain, span=self._span(start))
        if self._at_both("other", "than"):
            scanner.next()
            self._expect("than")
            excluded = self._event()
            domain = Union((excluded, event), span=self._span(start))
            return Atom(Difference(domain, excluded, span=self._span(start)), domain, span=self._span(start))
        return Atom(event, None, self._variable(), span=self._span(start))

    def _variable(self) -> str:
        return self.scanner.expect_kind("name", "a name for the event").text if self._take("as") else ""

    def _event(self) -> DescribableSet:
        """`"light on"`, `Temp where temp < 15`, `any event but "Tick"`."""
        scanner, start = self.scanner, self.scanner.word.start
        if self._at_both("any", "event"):
            scanner.next()
            self._expect("event")
            everything = AnySet(span=self._span(start))
            if not self._take("but"):
                return everything
            with self._deeper():
                return Difference(everything, self._event(), span=self._span(start))
        if scanner.word.kind not in ("name", "string"):
            scanner.expected.append('an event such as "Door"')
            raise scanner.unexpected()
        word = scanner.next()
        place = Span(word.start, word.end)
        event: DescribableSet = TypeSet(word.text, span=place)
        if word.text in self._sets:
            event = self._sets[word.text]
            self._parts += count_parts(event, MOST_PARTS - self._parts)
            if self._parts > MOST_PARTS:
                refuse_parts(scanner.text, place, word.text)
        elif self._known and not word.text.isidentifier():
            allowed, advice = ", ".join(self._sets) or None, f'say what it is: "{word.text}" is Door where open.'
            raise scanner.error("no event of this name", place, given=word.text, allowed=allowed, advice=advice)
        if self._take("where"):
            event = Filtered(event, self.expression(), span=self._span(start))
        return event

    # Times.

    def _time(self) -> int:
        """A duration, in quotes or not, ns."""
        word = self.scanner.word
        if word.kind != "string":
            if word.kind != "duration":
                self.scanner.expected.append(_DURATION)
                raise self.scanner.unexpected()
            return self.duration()
        inner = PrettyScanner(self.scanner.text, word.start + 1, word.end - 1)
        if inner.word.kind != "duration":
            place = Span(word.start, word.end)
            raise self.scanner.error("not a duration", place, given=word.text, allowed=_DURATION)
        length = SentenceParser(inner).duration()
        if inner.word.kind != "end":
            place = Span(word.start, word.end)
            raise self.scanner.error("not a duration", place, given=word.text, allowed=_DURATION)
        self.scanner.next()
        return length

    def _clock(self) -> TimeOfDay:
        """A time of day, in quotes with a time zone or without."""
        scanner, word = self.scanner, self.scanner.word
        place = Span(word.start, word.end)
        if word.kind != "string":
            match = scanner.raw(CLOCK_TIME, _CLOCK)
            return self._time_of_day(match, Span(match.start(), match.end()))
        match_inside = CLOCK_TIME.match(word.text)
        zone = _ZONE.fullmatch(word.text, match_inside.end()) if match_inside else None
        if match_inside is None or (zone is None and match_inside.end() < len(word.text)):
            allowed = f'{_CLOCK}, "19:00 Europe/London"'
            raise scanner.error("not a time of day", place, given=word.text, allowed=allowed)
        time_of_day = self._time_of_day(match_inside, place)
        if zone is not None:
            self.check_zone(zone[1], place)
            time_of_day = TimeOfDay(time_of_day.nanosecond, zone[1])
        scanner.next()
        return time_of_day

    def _time_of_day(self, match: re.Match[str], place: Span) -> TimeOfDay:
        try:
            return clock_time(match)
        except PatternError as error:
            raise self.scanner.error(error.problem, place, given=match[0], allowed=error.allowed) from None

    # Words.

    def _at(self, *words: str) -> bool:
        """Whether one of these words is here, in any case."""
        word = self.scanner.word
        written = self.scanner.text[word.start : word.end].lower()
        if word.kind in ("name", "keyword") and written in words:
            return True
        self.scanner.expected += words
        return False

    def _at_both(self, first: str, second: str) -> bool:
        """Whether these two words are here; the first alone may be a name."""
        word, written = self.scanner.word, self.scanner.text
        if word.kind == "name" and written[word.start : word.end].lower() == first:
            following = self.scanner.peek()
            if following.kind == "name" and written[following.start : following.end].lower() == second:
                return True
        self.scanner.expected.append(f"{first} {second}")
        return False

    def _take(self, *words: str) -> bool:
        found = self._at(*words)
        if found:
            self.scanner.next()
        return found

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self.scanner.unexpected()

    def _stop(self) -> None:
        """The full stop of a sentence."""
        if self.scanner.word.kind != "stop":
            self.scanner.expected.append("a full stop")
            raise self.scanner.unexpected()
        self.scanner.next()
