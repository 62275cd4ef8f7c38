"""The verb `story`: history of a detector, a subscription or a source, requested from all nodes and merged by time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text
from typer import Argument

from distced.brokers.core.causes import StoryAnswer, StoryLine, StoryRequest
from distced.brokers.core.directory import Directory
from distced.brokers.live.observers import LiveDirectory
from distced.middleware.bus import Bus
from distced.middleware.cli.options import DEFAULT, PATIENCE, Duration, ServerOption, duration_option, verb
from distced.middleware.cli.output import AsJson, few, output, print_json
from distced.middleware.cli.signals import ending
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND, format_instant
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.topics import Area, administration_topic, area_filter

Merged = dict[str, list[StoryLine]]
"""Lines of all nodes in order of time, by kind and id."""

ASK_EVERY: Final = 0.5
"""Interval of requests to nodes that have not answered, s."""

_SHOWN: Final = 10


@dataclass(frozen=True)
class StoryOptions:
    """Options of `distced story`; durations in ns."""

    id: Annotated[
        str, Argument(metavar="ID", help="Id of a subscription or source, or the beginning of the id of a detector.")
    ]
    server: ServerOption = DEFAULT
    timeout: Annotated[int, duration_option(help="Time for nodes to answer.")] = Duration("5s")
    as_json: AsJson = False


@verb
def story(options: StoryOptions) -> int:
    """Show the history of a detector, a subscription or a source: time, node, cause and effect of each step.

    Every node keeps the last 50 lines of each; the lines of all nodes are merged by their clocks. The story of a
    destroyed detector is kept for a while. The exit code is 2 where no node knows the id.

    \b
    Examples:
      distced story c52925
      distced story door-sensor-3 --json
    """
    merged, silent = ask(options.server, options.id, timeout=options.timeout / SECOND)
    if options.as_json:
        print_json({"stories": msgspec.to_builtins(merged), "silent": silent})
        return 0
    for subject, lines in merged.items():
        output().print(story_table(subject, lines), soft_wrap=False)
    if silent:
        output().print(f"no answer from {', '.join(silent)}", style="yellow")
    return 0


def ask(server: str, id: str, *, timeout: float) -> tuple[Merged, list[str]]:  # noqa: A002
    """Stories of an id, and the nodes that have not answered in time.

    Raises:
        DistcedError: where no node knows it, and where several detectors begin so.
    """
    with ending(), LiveDirectory(server) as reading:
        nodes, _ = reading.look(lambda directory: sorted(directory.nodes))
        answers = ask_nodes(server, nodes, id, timeout=timeout)
        merged = merge(answers.values())
        check_found(id, merged, reading.look(_known)[0])
    return merged, sorted(set(nodes) - answers.keys())


def ask_nodes(server: str, nodes: Iterable[str], id: str, *, timeout: float) -> dict[str, StoryAnswer]:  # noqa: A002
    """Answers of nodes about an id, by node, as far as they have come in time, s."""
    answers: dict[str, StoryAnswer] = {}
    asked = set(nodes)
    came = threading.Condition()

    def answered(topic: str, payload: bytes, retain: bool) -> None:
        answer = decode(payload, StoryAnswer, where=topic)
        with came:
            answers[answer.node] = answer
            came.notify_all()

    with Bus(server) as bus:
        bus.wait_connected(PATIENCE)
        bus.subscribe(area_filter(Area.ADMINISTRATION, "story-of", bus.client_id), answered, qos=1)
        deadline = time.monotonic() + timeout
        with came:
            while not answers.keys() >= asked and time.monotonic() < deadline:
                # Again, because amqtt may take a message before a subscription that was sent before it.
                bus.publish(administration_topic("story", bus.client_id), encode(StoryRequest(id)), qos=1)
                came.wait_for(lambda: answers.keys() >= asked, min(ASK_EVERY, max(0.0, deadline - time.monotonic())))
            return dict(answers)


def merge(answers: Iterable[StoryAnswer]) -> Merged:
    """Lines of all nodes, by subject, in order of time."""
    merged: Merged = {}
    for answer in answers:
        for subject, story in answer.stories.items():
            merged.setdefault(subject, []).extend(story)
    for lines in merged.values():
        lines.sort(key=lambda line: (line.at, line.node, line.cause))
    return dict(sorted(merged.items()))


def check_found(id: str, merged: Merged, known: dict[str, list[str]]) -> None:  # noqa: A002
    """Raise `DistcedError` where no story, or those of several detectors, match the id."""
    if not merged:
        there = "; ".join(f"{kind}: {few(names, _SHOWN)}" for kind, names in known.items() if names)
        raise DistcedError(
            "no node knows a detector, a subscription or a source of this id",
            given=id,
            allowed=there or "nothing is there yet",
            advice="distced detectors lists detectors with their subscriptions",
        )
    detectors = [subject.removeprefix("detector ") for subject in merged if subject.startswith("detector ")]
    if len(detectors) > 1:
        raise DistcedError(
            "the ids of several detectors begin so",
            given=id,
            allowed=few(detectors, _SHOWN),
            advice="give more of the id",
        )


def story_table(subject: str, lines: list[StoryLine]) -> Table:
    """Story as a table for people."""
    table = Table(box=box.SIMPLE_HEAD, title=Text(subject, "bold"), title_justify="left", pad_edge=False)
    for name in ("time", "node", "cause", "happened", "effect"):
        table.add_column(name, overflow="fold", no_wrap=name in ("time", "node"))
    for line in lines:
        times = f" ({line.times} times)" if line.times > 1 else ""
        cause = f"#{line.cause} {line.stimulus}{times}"
        table.add_row(*map(Text, (format_instant(line.at), line.node, cause, line.happened, line.effect)))
    return table


def _known(directory: Directory) -> dict[str, list[str]]:
    return {f"{kind}s": sorted(directory.table(kind)) for kind in ("detector", "subscription", "source")}
