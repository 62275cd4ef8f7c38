"""The tasks of a replay and the folder they work in: what each leaves there says that it is done.

    WORK/plan.json            what is replayed: going on needs the same
    WORK/dealt/0/NAME.arrow   the events of a unit for group 0, a batch for each slot
    WORK/dealt/NAME.json      the unit is dealt out
    WORK/found/3.found        what task 3 has found, in order
    WORK/found/3.json         task 3 is done
    WORK/told/3.frames        what task 3, a detector of a sub-pattern, tells its readers

Events go from task to task through files and not through Spark's shuffle, which takes rows out of Arrow and puts them
back: of a pass that does so the detection is a small part. Spark says where and when tasks run, and runs them again
where a machine is lost; what is done already is then found done. So workers and driver need a folder in common, as they
do for the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from distced.detectors.compiler import Compiled
from distced.detectors.runtime.engines import EngineName
from distced.simulations.replay.detection_task import Counts, detect
from distced.simulations.replay.file_ranges import Trouble, Unit, appearing, days_of, deal, dealt, read
from distced.simulations.replay.plan import Slice
from distced.simulations.replay.result_files import unreadable, write_found

DEALT: Final = "dealt"
FOUND: Final = "found"

FEW: Final = 32_768
"""Days with fewer events than this are taken together, for an engine does best with many at once."""


class Done(msgspec.Struct, frozen=True):
    """What a task says of itself.

    Attributes:
        consumed, repeated: events it has consumed, and left out because they came again.
        found: composite events it has found.
        seconds: it took.
        troubles: what it could not read.
    """

    consumed: int = 0
    repeated: int = 0
    found: int = 0
    seconds: float = 0.0
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True)
class Dealing:
    """Some units are dealt out by the keys of groups.

    Attributes:
        groups: for each, its number, the names in its patterns (`Detecting.names`), its types, by what it is dealt, and
            into how many.
    """

    work: str
    units: tuple[Unit, ...]
    groups: tuple[tuple[int, frozenset[str] | None, frozenset[str] | None, tuple[str, ...], int], ...]
    begin: int
    until: int

    @property
    def stage(self) -> int:
        """It is performed when all tasks of earlier stages are done."""
        return 0

    @property
    def rows(self) -> int:
        """How many events are read."""
        return sum(each.rows for each in self.units)

    def is_done(self) -> bool:
        """Whether it was done before."""
        return all((Path(self.work) / DEALT / f"{each.name}.json").exists() for each in self.units)

    def perform(self, clock: Callable[[], float]) -> Done:
        """Do it."""
        started, consumed = clock(), 0
        troubles: list[Trouble] = []
        for unit in self.units:
            done = Path(self.work) / DEALT / f"{unit.name}.json"
            if done.exists():
                continue
            trouble: tuple[Trouble, ...] = ()
            for number, names, types, by, slots in self.groups:
                if types is not None and unit.type not in types:
                    continue
                try:
                    table = read(unit, names, self.begin, self.until)
                except (OSError, pa.ArrowException) as error:
                    trouble = (Trouble(unit.path, str(error), unit.rows),)
                    break
                consumed += len(table)
                if len(table):
                    deal(table, by, slots, Path(self.work) / DEALT / str(number) / f"{unit.name}.arrow")
            leave(done, Done(troubles=trouble))
            troubles += trouble
        return Done(consumed, seconds=clock() - started, troubles=tuple(troubles))


@dataclass(frozen=True, slots=True)
class Detecting:
    """Patterns are detected in a slice of time, or in what one slot was dealt.

    Attributes:
        number: of the task.
        group: of the patterns.
        names: those in the patterns, whose columns are read; None for all columns, so that constituents are told whole.
        slot: which of what was dealt out; None where the history is read.
    """

    work: str
    number: int
    group: int
    patterns: tuple[Compiled, ...]
    names: frozenset[str] | None
    units: tuple[Unit, ...]
    wanted: Slice
    slot: int | None
    engine: EngineName
    rows: int

    def is_done(self) -> bool:
        """Whether it was done before."""
        return self._done.exists()

    @property
    def stage(self) -> int:
        """It is performed when all tasks of earlier stages are done."""
        return 0 if self.slot is None else 1

    @property
    def _done(self) -> Path:
        return Path(self.work) / FOUND / f"{self.number}.json"

    @property
    def found(self) -> Path:
        """Where what it finds is."""
        return Path(self.work) / FOUND / f"{self.number}.found"

    def perform(self, clock: Callable[[], float]) -> Done:
        """Do it."""
        started = clock()
        counts, troubles, found = Counts(), list[Trouble](), 0
        with appearing(self.found) as part, part.open("wb") as file:
            stretches = detect(
                self.patterns,
                self._days(troubles),
                self.wanted,
                engine=self.engine,
                events=self.rows,
                counts=counts,
            )
            for stretch in stretches:
                found += len(stretch)
                write_found(file, stretch, whole=self.names is None)
        done = Done(counts.consumed, counts.repeated, found, clock() - started, tuple(troubles))
        leave(self._done, done)
        return done

    def _days(self, troubles: list[Trouble]) -> Iterator[Sequence[Any]]:
        """The tables of each day; of several days together where there is little in them."""
        tables: list[Any] = []
        for units in days_of(self.units):
            for unit in units:
                try:
                    table = self._table(unit)
                except (OSError, pa.ArrowException) as error:
                    troubles.append(Trouble(unit.path, str(error), unit.rows))
                    continue
                if table is not None and len(table):
                    tables.append(table)
            if sum(map(len, tables)) >= FEW:
                yield tables
                tables = []
        if tables:
            yield tables

    def _table(self, unit: Unit) -> Any:
        if self.slot is None:
            return read(unit, self.names, self.wanted.begin, self.wanted.until)
        path = Path(self.work) / DEALT / str(self.group) / f"{unit.name}.arrow"
        # What could not be read was said when it was dealt.
        if not path.exists():
            return None
        try:
            return dealt(path, self.slot)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, error) from None


def leave(path: Path, done: Done) -> None:
    """Note that something is done."""
    with appearing(path) as part:
        part.write_bytes(msgspec.json.encode(done))


def left(path: Path) -> Done | None:
    """What was noted of something that is done; None where it is not."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Done)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None
