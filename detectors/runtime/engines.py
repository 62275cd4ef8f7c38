"""The engines, and the choice between them for a replay.

Both run the same automata with the same results. The stepwise engine is light and starts at once; the columnar engine
takes seconds to start and is many times as fast on batches of a few dozen events or more. It needs numba (`pip install
distced[fast]`), imported only when such an engine is made; without it the stepwise engine serves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from distced.detectors.compiler import Compiled
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import Kind

if TYPE_CHECKING:
    from distced.detectors.columnar.engine import ColumnarEngine

EngineName: TypeAlias = Literal["auto", "stepwise", "columnar"]
ENGINE_NAMES: Final[tuple[EngineName, ...]] = ("auto", "stepwise", "columnar")

Kinds: TypeAlias = Callable[[str], Mapping[str, Kind] | None]
"""The kinds of a type's attributes, where known."""

PAYS_FROM: Final = 200_000
"""Number of events from which a replay is faster with the columnar engine, its start included: the stepwise one
consumes about half a million events of a plain pattern in the two seconds the other takes to start.
"""


def has_columnar() -> bool:
    """Whether the columnar engine is installed."""
    return find_spec("numba") is not None


def is_compiled() -> bool:
    """Whether the columnar engine is compiled, in this process or on disk; this imports numba."""
    from distced.detectors.columnar import loop

    return loop.is_compiled()


def chosen(name: EngineName, events: int) -> EngineName:
    """The engine for a replay of n events. Raises `DistcedError` for an unknown name, and if the columnar engine is
    asked for and unavailable."""
    if name not in ENGINE_NAMES:
        raise DistcedError("no engine of this name", given=name, allowed=", ".join(ENGINE_NAMES))
    if name == "columnar" and not has_columnar():
        raise DistcedError(
            "the columnar engine needs numba, which is not installed",
            advice="pip install 'distced[fast]', or take the stepwise engine, which finds the same",
        )
    if name != "auto":
        return name
    return "columnar" if events >= PAYS_FROM and has_columnar() else "stepwise"


def notice(name: EngineName, events: int = 0) -> str | None:
    """A note on the engine for the user of a replay of n events, while it is compiled or missing; None for none."""
    if chosen(name, events) == "columnar":
        if not is_compiled():
            return "the columnar engine is being compiled, once for this version on this machine (about 20 s)"
    elif name == "auto" and events >= PAYS_FROM:
        return "the stepwise engine is taken, because numba is not installed: pip install 'distced[fast]'"
    return None


def make_engine(
    patterns: Sequence[Compiled],
    kinds: Kinds = lambda _: None,
    *,
    engine: EngineName = "stepwise",
    derivations: bool = False,
) -> StepwiseEngine | ColumnarEngine:
    """An engine by name; `auto` is the stepwise one, because the load ahead is unknown."""
    if chosen(engine, 0) == "stepwise":
        return StepwiseEngine(patterns, kinds, derivations=derivations)
    from distced.detectors.columnar.engine import ColumnarEngine

    return ColumnarEngine(patterns, kinds, derivations=derivations)
