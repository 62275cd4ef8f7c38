"""The engines, and which of them is taken.

Both run the same automata and find the same. The stepwise engine is quick to start, light, and the one to read; the
columnar engine takes some seconds to come up and is many times as fast on batches of a few dozen events or more. It
needs numba (`pip install distced[fast]`), which is imported only when such an engine is made; where it is missing the
stepwise engine serves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from distced.detectors.compiler import Compiled
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.cli.output import messages
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import Kind

if TYPE_CHECKING:
    from distced.detectors.columnar.engine import ColumnarEngine

EngineName: TypeAlias = Literal["auto", "stepwise", "columnar"]
ENGINE_NAMES: Final[tuple[EngineName, ...]] = ("auto", "stepwise", "columnar")

Kinds: TypeAlias = Callable[[str], Mapping[str, Kind] | None]
"""The kinds of a type's attributes, where they are known."""

PAYS_FROM: Final = 200_000
"""From so many events on a replay is quicker with the columnar engine, its start included: the stepwise one consumes
about half a million events of a plain pattern in the two seconds it takes the other to come up."""


def has_columnar() -> bool:
    """Whether the columnar engine can be had here."""
    return find_spec("numba") is not None


def chosen(name: EngineName, events: int) -> EngineName:
    """The engine for a replay of so many events.

    Raises:
        DistcedError: for a name that is none, and where the columnar engine is asked for and cannot be had.
    """
    if name not in ENGINE_NAMES:
        raise DistcedError("no engine of this name", given=name, allowed=", ".join(ENGINE_NAMES))
    if name == "columnar" and not has_columnar():
        raise DistcedError(
            "the columnar engine needs numba, which is not installed",
            advice="pip install 'distced[fast]', or take the stepwise engine, which finds the same",
        )
    if name != "auto":
        return name
    if events < PAYS_FROM:
        return "stepwise"
    if not has_columnar():
        messages().print("the stepwise engine is taken, because numba is not installed: pip install 'distced[fast]'")
        return "stepwise"
    return "columnar"


def make_engine(
    patterns: Sequence[Compiled],
    kinds: Kinds = lambda _: None,
    *,
    engine: EngineName = "stepwise",
    records: bool = False,
) -> StepwiseEngine | ColumnarEngine:
    """An engine by its name; `auto` is the stepwise one, for nothing is known of what is to come."""
    if chosen(engine, 0) == "stepwise":
        return StepwiseEngine(patterns, kinds, records=records)
    from distced.detectors.columnar.engine import ColumnarEngine

    return ColumnarEngine(patterns, kinds, records=records)
