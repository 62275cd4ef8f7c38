"""The verb `drain`: has a node's detectors move to others, before the node is stopped, and waits until they have."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Final

from rich.text import Text
from typer import Argument, Option

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.lookup import check_node
from distced.brokers.live.observers import LiveDirectory
from distced.middleware.cli.options import DEFAULT, Duration, ServerOption, duration_option, verb
from distced.middleware.cli.output import AsJson, few, output, print_json, progress
from distced.middleware.cli.signals import ending
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Drain
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic

LOOK: Final = 0.2
"""Interval of looks at the time while nothing changes, s."""


@dataclass(frozen=True)
class DrainOptions:
    """Options of `distced drain`; durations in ns."""

    node: Annotated[str, Argument(metavar="NODE", help="Node that is to be stopped.")]
    server: ServerOption = DEFAULT
    undo: Annotated[bool, Option("--undo", help="Let the node host detectors again.")] = False
    timeout: Annotated[int, duration_option(help="Time for all moves.")] = Duration("2min")
    as_json: AsJson = False


@verb
def drain(options: DrainOptions) -> int:
    """Drain a node: its detectors and replicas move to other nodes, with their state, and none come.

    Then it can be stopped, and started again with another version: composite events are as without. A node that starts
    takes part again; --undo does the same for one that is not stopped after all. The exit code is 2 for an unknown
    node, for the last one, and where detectors are left when the time is over: they go on where they are.

    \b
    Examples:
      distced drain cellar && systemctl restart distced@cellar
      distced drain cellar --undo
    """
    node = options.node
    with ending(), LiveDirectory(options.server) as reading:
        (hosted, _), state = reading.look(lambda directory: _left(_checked(directory, node, alone=options.undo), node))
        before, began, answered = len(hosted), time.monotonic(), False
        reading.publish({administration_topic("drain", node): encode(Drain(not options.undo))}, retain=False)
        with progress("detectors moved", before) as moved:
            # Until the node says that it is draining, or is not, others may place detectors there.
            while hosted or not answered:
                reading.wait(state, LOOK)
                (hosted, draining), state = reading.look(lambda directory: _left(directory, node))
                answered = draining is not options.undo
                hosted = [] if options.undo else hosted
                moved(before - len(hosted))
                if (time.monotonic() - began) * SECOND > options.timeout:
                    break
        took = time.monotonic() - began
    if not answered:
        raise DistcedError(
            "the node has not answered",
            given=node,
            advice="look at its log; one of an earlier version cannot be drained",
        )
    if options.as_json:
        print_json(
            {"node": node, "detectors": before, "left": hosted, "draining": not options.undo, "ns": int(took * SECOND)}
        )
        return 2 if hosted else 0
    if options.undo:
        output().print(Text.assemble((node, "bold"), " hosts detectors again"))
    elif hosted:
        raise DistcedError(
            "detectors have not moved",
            given=few([each[:8] for each in hosted]),
            where=f"node {node}",
            advice="its log has `detector not drained` for those that hints tie to it; --undo has it host others again",
        )
    else:
        count = "1 detector has" if before == 1 else f"{before:,} detectors have"
        output().print(Text.assemble((node, "bold"), f" is drained: {count} moved in {took:.1f} s; it can be stopped"))
    return 0


def _checked(directory: Directory, node: str, *, alone: bool) -> Directory:
    """The directory. Raises `DistcedError` for the last node, where it may not be `alone`."""
    if not alone and not any(each != node for each in directory.common_nodes):
        raise DistcedError("the last node is not drained", given=node, advice="start another one first")
    return directory


def _left(directory: Directory, node: str) -> tuple[list[str], bool]:
    """Detectors of which a node has the primary, or a replica, and whether it is draining. Raises `DistcedError` for
    a node that has gone meanwhile."""
    check_node(directory, node)
    hosted = sorted(name for name, each in directory.detectors.items() if node == each.node or node in each.replicas)
    return hosted, directory.nodes[node].draining
