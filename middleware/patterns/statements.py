"""Statements of a pattern file as text: derived types, definitions, publications.

A client splits a file without a parser: broker nodes read the statements. Private publications are sent as definitions
are, with the patterns that use their names. A statement ends where a line begins in the first column, unless that line
goes on with an operator or a bracket is open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, Protocol, TypeVar

from distced.middleware.model.clock_rules import cron_clock, every_clock
from distced.middleware.model.errors import DistcedError, PatternError, SubscriptionError
from distced.middleware.model.timestamps import parse_duration
from distced.middleware.model.utf8_text import utf8_text

DEFINED: Final = re.compile(r"(?:`([^`\n]+)`|([^\W\d]\w*))\s*=(?!=)")
"""Begin of a definition."""

OTHER_ENDINGS: Final = (".cel", ".algebra", ".cedr", ".cedmos", ".pretty")
"""Endings of files in other languages, which are no pattern files."""

CONSUMPTIONS: Final = ("ordered", "epoch")
"""Kinds of consumption of events."""

NO_STATE: Final = "a state that is throttled, or has an aggregate over a window"
NO_STATE_ADVICE: Final = "derive a type with it, and the state from that: type Last = last Mean by room"

_STATEMENT: Final = re.compile(r"^(?=[^\s#])", re.MULTILINE)
_GOES_ON: Final = (")", "]", "}", ",", ";", "|", "&", "*", "+", "{", "@", "->", "→", "∥", "‖", "⊆", "<=")
_GOES_ON_WORDS: Final = re.compile(
    r"(?:within|by|where|as|set|and|or)\b|consumed\s+(?:ordered|epoch)\b|publish_json\s*=\s*['\"]"
)

# Texts and comments, names in back-quotes, names, brackets, the sign of an output, and that behind a beginning.
_TOKEN: Final = re.compile(
    r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|\#[^\n]*|`(?P<quoted>[^`\n]*)`|(?P<name>[^\W\d]\w*)|(?P<sign>->|→|[][(){}:])"""
)
# Texts, names in back-quotes, brackets and commas.
_ASSIGNMENTS: Final = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`[^`\n]*`|[][(){},]""")
_SLIDING: Final = re.compile(r"\)\s*over\b")
_AT_MOST: Final = re.compile(r"\s+most\s+1\s+per\b")
_DERIVED: Final = re.compile(r"type\s+(?:`([^`\n]+)`|([^\W\d]\w*))\s*=(?!=)\s*(?:`([^`\n]+)`|([^\W\d]\w*))\s*")
# A name behind `last` is that of the base of a state; `type A = last where ...` is derived from a type `last`.
_LAST: Final = re.compile(
    r"type\s+(?:`([^`\n]+)`|([^\W\d]\w*))\s*=(?!=)\s*last\s+(?!(?:where|with|every|at|by)\b)"
    r"(?:`([^`\n]+)`|([^\W\d]\w*))\s*"
)
_CLOCK: Final = re.compile(
    r"""type\s+(?:`([^`\n]+)`|([^\W\d]\w*))\s*=(?!=)\s*clock\s+(?:every\b\s*(?P<every>.*)"""
    r"""|'(?P<single>[^'\n]*)'(?P<of_single>.*)|"(?P<double>[^"\n]*)"(?P<of_double>.*))""",
    re.DOTALL,
)
_ZONE: Final = re.compile(r"""in\s*['"]([^'"\n]*)['"]""")
_PRIVATE: Final = re.compile(r"private\b(?!\s*=)")
_CONSTANT: Final = re.compile(r"[(\-\s]*(?:[\d'\"]|(?:true|false|null|inf)\b)")
_CONSUMPTION: Final = re.compile(r"consumption\s+([^\W\d]\w*)\s*(?:\#[^\n]*\s*)*")
_LINE: Final = re.compile(r"\bline (\d+), column \d+")
_PLACE: Final = re.compile(r"\bline (\d+)(?=, column)")


@dataclass(frozen=True, slots=True)
class Statement:
    """Publication: its text, the line of the file it begins in, the type it publishes (empty for none)."""

    text: str
    line: int
    publishes: str = ""


@dataclass(frozen=True, slots=True)
class DerivedStatement:
    """Derived type: as of `middleware.patterns.tree.DerivedType`, with expressions as text; `every` in ns."""

    name: str
    base: str
    where: str
    every: int
    by: tuple[str, ...]
    line: int
    computed: tuple[tuple[str, str], ...] = ()
    quiet: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True)
class FileStatements:
    """Statements of a file of this name; definitions by name, private publications among them."""

    name: str
    types: tuple[DerivedStatement, ...]
    definitions: Mapping[str, Statement]
    publications: tuple[Statement, ...]

    @property
    def texts(self) -> dict[str, str]:
        """Definitions as text, by name."""
        return {name: each.text for name, each in self.definitions.items()}

    @property
    def published(self) -> frozenset[str]:
        """Types that the patterns publish."""
        return frozenset(each.publishes for each in self.publications if each.publishes)

    def in_groups(self) -> list[list[int]]:
        """Places of the publications in groups, each behind those that publish what it reads."""
        published = self.published
        bases = {each.name: {each.base, *_read_by(each)} for each in self.types}
        definitions = self.texts
        reads: dict[int, set[str]] = {}
        for place, each in enumerate(self.publications):
            used = used_definitions(each.text, definitions)
            words = set(_names(each.text)).union(*map(_names, used.values()))
            added = words
            while added := set[str]().union(*(bases[word] for word in added if word in bases)) - words:
                words |= added
            reads[place] = (words & published) - {each.publishes}
        groups: list[list[int]] = []
        while reads:
            waiting = {self.publications[place].publishes for place in reads}
            # In a circle all are asked for at once, and nodes say what is wrong.
            ready = [place for place, names in reads.items() if names.isdisjoint(waiting)] or list(reads)
            groups.append(ready)
            for place in ready:
                del reads[place]
        return groups

    def placed(self, error: DistcedError, place: int) -> DistcedError:
        """Error of a publication, with lines of the file."""
        statement = self.publications[place]

        def in_file(text: str) -> str:
            for derived in self.types:
                if f"derived type {derived.name}, line" in text:
                    return _LINE.sub(f"line {derived.line}", text)
            for name, each in self.definitions.items():
                if f"definition {name}, line" in text:
                    return _moved(text, each.line)
            return _moved(text, statement.line)

        where = f", {error.where}" if error.where else ""
        return SubscriptionError(
            in_file(error.problem),
            given=error.given,
            allowed=error.allowed,
            where=f"{self.name}, statement of line {statement.line}{where}",
            advice=error.advice,
        )


def split_statements(text: str) -> list[tuple[int, int]]:
    """Start and end of each statement of a dedented file."""
    starts: list[int] = []
    for match in _STATEMENT.finditer(text):
        start = match.start()
        if starts and (_goes_on(text, start) or _open_bracket(text, starts[-1], start)):
            continue
        starts.append(start)
    return list(zip(starts, [*starts[1:], len(text)], strict=False))


def read_file(path: str | Path) -> FileStatements:
    """Statements of a pattern file. Raises `PatternError`, also for a file in another language."""
    if (suffix := Path(path).suffix) in OTHER_ENDINGS:
        language = suffix.removeprefix(".")
        advice = f"subscribe to its text: subscribe(text, language={language!r}, query='Name'), or distced translate it"
        raise PatternError("a file in another language than that of pattern files", given=str(path), advice=advice)
    try:
        text = pattern_text(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise PatternError("cannot read the pattern file", given=str(path), advice=str(error)) from None
    return read_statements(text, str(path))


def pattern_text(content: bytes) -> str:
    """Text of a pattern file, whose lines end with a line feed. Raises `ValueError` where it is not UTF-8."""
    return utf8_text(content).replace("\r\n", "\n").replace("\r", "\n")


def read_statements(text: str, name: str = "the pattern file") -> FileStatements:
    """Statements of the text of a pattern file, with its name for errors. Raises `PatternError`."""
    text = dedent(text)
    types: list[DerivedStatement] = []
    definitions: dict[str, Statement] = {}
    publications: list[Statement] = []
    privates: dict[str, Statement] = {}
    pieces = split_statements(text)
    for line, content in enumerate(text[: pieces[0][0]].splitlines() if pieces else text.splitlines(), 1):
        if content.strip() and not content.lstrip().startswith("#"):
            raise _error("a statement begins in the first column", given=content.strip(), where=f"{name}, line {line}")
    bodies = {
        each[1] or each[2]: _uncommented(text[each.end() : end]).strip()
        for start, end in pieces
        if (each := DEFINED.match(text, start))
    }
    named = bodies.keys()
    constants = {name: body for name, body in bodies.items() if _CONSTANT.match(body)}
    consumption = ""
    for start, end in pieces:
        line, content = text.count("\n", 0, start) + 1, text[start:end].rstrip()
        where = f"{name}, line {line}"
        if _open_bracket(text, start, end):
            raise _error("a bracket that is not closed", given=content.splitlines()[0], where=where)
        if "consumption" not in named and (by := _CONSUMPTION.fullmatch(content)) is not None:
            if by[1] not in CONSUMPTIONS:
                raise _error("unknown kind of consumption", given=by[1], allowed=", ".join(CONSUMPTIONS), where=where)
            consumption = by[1]
        elif (state := _LAST.match(content)) is not None:
            types.append(_derived(content, state, line, where, constants, last=True))
        elif (clock := _CLOCK.match(content)) is not None:
            types.append(_clock(clock, line, where, constants))
        elif (derived := _DERIVED.match(content)) is not None:
            types.append(_derived(content, derived, line, where, constants))
        elif (defined := DEFINED.match(content)) is not None:
            known = defined[1] or defined[2]
            if known in definitions:
                raise _error("defined twice", given=known, where=where)
            # Blanks for the name, so that columns are those of the file.
            definitions[known] = Statement(" " * defined.end() + content[defined.end() :], line)
        else:
            published = _published(content)
            if consumption and not _consumed(content):
                # Behind a comment it has a line of its own.
                content += f"\nconsumed {consumption}"
            if "private" in named or not _is_private(content):
                publications.append(Statement(content, line, published))
                continue
            if not published:
                raise _error("a private publication without a name", given=content.splitlines()[0], where=where)
            if published in definitions or published in privates:
                raise _error("defined twice", given=published, where=where)
            privates[published] = Statement(content, line)
    if not publications:
        raise _error(
            "a pattern file that publishes nothing",
            given=", ".join(definitions) or None,
            where=name,
            advice="a pattern that is to be detected has no `Name =` before it: [A] ; [B] -> Name()",
        )
    definitions |= privates
    _check_read(privates, publications, definitions, types, name)
    return FileStatements(name, tuple(types), definitions, tuple(publications))


def _check_read(
    privates: Mapping[str, Statement],
    publications: Iterable[Statement],
    definitions: Mapping[str, Statement],
    types: Iterable[DerivedStatement],
    name: str,
) -> None:
    """Raise `PatternError` for a private publication that no other reads, as nodes would not get it."""
    texts = {each: statement.text for each, statement in definitions.items()}
    used = {each for publication in publications for each in used_definitions(publication.text, texts)}
    for each, statement in privates.items():
        where = f"{name}, line {statement.line}"
        if each not in used:
            advice = f"read it, [{each}], or take private away, and it is delivered"
            raise _error("a private publication that nothing reads", given=each, where=where, advice=advice)
        for derived in types:
            if derived.base == each:
                raise _error(
                    "a type derived from a private publication, which no event outside the file has",
                    given=each,
                    where=f"{name}, line {derived.line}",
                    advice="give the private publication a final filter and attributes, or take private away",
                )


def _is_private(content: str) -> bool:
    """Whether a publication is private: nothing that reads it stands behind it, `private C -> Name() : [Name]`."""
    if _PRIVATE.match(content) is None:
        return False
    arrow, depth = False, 0
    for token in _TOKEN.finditer(content):
        sign = token["sign"] or ""
        depth += (sign in {"(", "[", "{"}) - (sign in {")", "]", "}"})
        arrow = arrow or sign in {"->", "→"}
        if arrow and depth == 0 and sign == ":":
            return False
    return True


_NO_DEFINITIONS: Final[dict[str, str]] = {}
"""One object for all patterns without definitions; never changed."""


class _Derived(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def base(self) -> str: ...


D = TypeVar("D", bound=_Derived)


def behind_bases(types: Iterable[D]) -> list[D]:
    """Derived types, each behind the one that it is derived from; those in a circle are the last."""
    waiting = list(types)
    ordered: list[D] = []
    while waiting:
        names = {each.name for each in waiting}
        ready = [each for each in waiting if each.base not in names] or waiting
        ordered += ready
        waiting = [each for each in waiting if each not in ready]
    return ordered


def _read_by(derived: DerivedStatement) -> set[str]:
    """Names in the expressions of a derived type, which may be those of states."""
    return {name for text in (derived.where, *(value for _, value in derived.computed)) for name in _names(text)}


def used_definitions(text: str, definitions: Mapping[str, str]) -> dict[str, str]:
    """Definitions that a pattern may use, directly or through others."""
    if not definitions:
        return _NO_DEFINITIONS
    used: dict[str, str] = {}
    waiting = [text]
    while waiting:
        for name in _names(waiting.pop()):
            if name in definitions and name not in used:
                used[name] = definitions[name]
                waiting.append(definitions[name])
    return {name: each for name, each in definitions.items() if name in used}


def _clock(match: re.Match[str], line: int, where: str, constants: Mapping[str, str]) -> DerivedStatement:
    """`type Name = clock every 1h`, or `type Name = clock "0 8 * * mon-fri" in "Europe/London"`."""
    name = match[1] or match[2]
    try:
        if match["every"] is not None:
            interval = _uncommented(match["every"]).strip()
            return DerivedStatement(
                name, every_clock(parse_duration(constants.get(interval, interval))), "", 0, (), line
            )
        rest = _uncommented(match["of_single"] or match["of_double"] or "").strip()
        zone = _ZONE.fullmatch(rest)
        if rest and zone is None:
            raise _error("not a clock", given=rest, allowed="in and a time zone in quotes", where=where)
        clock = cron_clock(match["single"] or match["double"] or "", "UTC" if zone is None else zone[1])
        return DerivedStatement(name, clock, "", 0, (), line)
    except PatternError:
        raise
    except DistcedError as error:
        raise _error(error.problem, given=error.given, allowed=error.allowed, where=where) from None


def _derived(
    content: str, match: re.Match[str], line: int, where: str, constants: Mapping[str, str], *, last: bool = False
) -> DerivedStatement:
    """`type Name = Base where condition with (hour = ...) every 1min by (person, room)`."""
    parts = {"where": "", "with": "", "every": "", "at": "", "by": ""}
    kinds = list(parts)
    open_part, begin, depth = "", match.end(), 0
    ends = [(each, _word(each)) for each in _TOKEN.finditer(content, match.end())]
    for token, word in ends:
        depth += (token["sign"] or "") in {"(", "[", "{"}
        depth -= (token["sign"] or "") in {")", "]", "}"}
        later = kinds[kinds.index(open_part) + 1 :] if open_part else kinds
        if word == "with" and not content[token.end() :].lstrip().startswith("("):
            continue  # an attribute
        if word == "at" and _AT_MOST.match(content, token.end()) is None:
            continue
        if token["name"] and depth == 0 and word in later:
            if open_part:
                parts[open_part] = content[begin : token.start()]
            elif content[begin : token.start()].strip():
                break
            open_part, begin = word, token.end()
    rest = _uncommented(content[begin:]).strip()
    if open_part:
        parts[open_part] = rest
    elif rest:
        raise _error("not a derived type", given=rest, allowed="where, with, every, at most or by", where=where)
    named = tuple(_names(parts["by"]))
    every = _uncommented(parts["every"]).strip()
    every = constants.get(every, every)
    most = _AT_MOST.sub("", _uncommented(parts["at"])).strip()
    most = constants.get(most, most)
    if every and most:
        raise _error("`every` and `at most` in one type", where=where, advice="derive one type from the other")
    if last and (every or most or _SLIDING.search(parts["with"])):
        raise _error(NO_STATE, where=where, advice=NO_STATE_ADVICE)
    if parts["by"] and not (last or every or most or _SLIDING.search(parts["with"])):
        raise _error("`by` throttles, and needs `every` or `at most` before it", where=where, advice="add every 1min")
    try:
        interval = parse_duration(every) if every else 0
        quiet = parse_duration(most) if most else 0
    except DistcedError as error:
        raise _error(error.problem, given=error.given, allowed=error.allowed, where=where) from None
    condition = " ".join(_uncommented(_with_constants(parts["where"], constants)).split())
    names = (match[1] or match[2], match[3] or match[4])
    computed = tuple(_computed(_uncommented(_with_constants(parts["with"], constants)), where)) if parts["with"] else ()
    return DerivedStatement(*names, condition, interval, named if parts["by"] else (), line, computed, quiet, last)


def _computed(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Names and expressions of `(hour = floor(hi() / 1h), ...)`."""
    text = text.strip()
    ends: list[int] = []
    depth, begin = 0, 1
    for token in _ASSIGNMENTS.finditer(text):
        depth += token[0] in {"(", "[", "{"}
        depth -= token[0] in {")", "]", "}"}
        if (depth == 1 and token[0] == ",") or not depth:
            ends.append(token.start())
        if not depth:
            break
    for end in ends:
        if (match := DEFINED.match(text[begin:end].strip())) is None:
            raise _error(
                "not a computed attribute",
                given=text[begin:end].strip() or text,
                allowed="name = expression",
                where=where,
                advice="write with (name = expression, ...)",
            )
        yield match[1] or match[2], " ".join(text[begin:end].strip()[match.end() :].split())
        begin = end + 1


def _consumed(content: str) -> bool:
    """Whether a publication has a consumption of its own."""
    words = [word for token in _TOKEN.finditer(content) if (word := _word(token) or token["sign"])]
    depth, found = 0, False
    for word, following in pairwise(words):
        depth += (word in {"(", "[", "{"}) - (word in {")", "]", "}"})
        # Before a colon it is that of a private publication.
        found = (found and word != ":") or (depth == 0 and word == "consumed" and following in CONSUMPTIONS)
    return found


def _with_constants(text: str, constants: Mapping[str, str]) -> str:
    """An expression with the values of constants in the places of their names."""

    def value(token: re.Match[str]) -> str:
        before, behind = text[: token.start()].rstrip(), text[token.end() :].lstrip()
        other = before.endswith(".") or behind.startswith((".", "("))
        return token[0] if other else constants.get(_word(token), token[0])

    return _TOKEN.sub(value, text)


def _published(content: str) -> str:
    """Type behind the last `->`; empty for none."""
    found, arrow = "", False
    for token in _TOKEN.finditer(content):
        if arrow:
            found = _word(token)
        arrow = (token["sign"] or "") in {"->", "→"}
    return found


def _names(text: str) -> Iterator[str]:
    return (word for token in _TOKEN.finditer(text) if (word := _word(token)))


def _word(token: re.Match[str]) -> str:
    return token["quoted"] or token["name"] or ""


def _uncommented(text: str) -> str:
    return _TOKEN.sub(lambda token: "" if token[0].startswith("#") else token[0], text)


def _moved(text: str, line: int) -> str:
    return _PLACE.sub(lambda match: f"line {int(match[1]) + line - 1}", text)


def _goes_on(text: str, start: int) -> bool:
    return text.startswith(_GOES_ON, start) or _GOES_ON_WORDS.match(text, start) is not None


def _open_bracket(text: str, start: int, end: int) -> bool:
    signs = [token["sign"] or "" for token in _TOKEN.finditer(text, start, end)]
    return sum((each in {"(", "[", "{"}) - (each in {")", "]", "}"}) for each in signs) > 0


def failed(statements: FileStatements, errors: Mapping[int, DistcedError]) -> DistcedError:
    """Error of a file of which some patterns were refused, with lines of the file."""
    first = statements.placed(errors[min(errors)], min(errors))
    if len(errors) > 1:
        count = len(statements.publications)
        first.problem = f"{len(errors):,} of {count:,} patterns were refused; the first: {first.problem}"
    return first


def _error(problem: str, *, where: str, **parts: Any) -> PatternError:
    error = PatternError(problem, **parts)
    error.where = where
    return error
