"""What the directory says of detectors, as text for a terminal.

Detectors are shown as a tree: those that serve clients at the top, below each the detectors it reads as parts of its
pattern. A part that several read is one detector, so it is shown with its own parts once, and "as above" again. A table
was rejected: patterns are long, and there is nothing to line up in a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from distced.brokers.inspect.detectors import DetectorReport, DetectorsReport, Host, Related
from distced.middleware.wire.directory_entries import Measured
from distced.policies.distribution.choose.reasons import show_figure, show_rate, show_time


def detectors_text(report: DetectorsReport) -> Iterator[RenderableType]:
    """The parts to be printed below one another: a tree of detectors, or all about one of them."""
    if report.about is not None:
        yield from _about(report, report.about)
    elif not report.detectors:
        yield Text(f"no detectors{'' if report.node is None else f' on the node {report.node}'}", "yellow")
    else:
        yield _forest(report)
        yield Text()
        yield Text(_summary(report.detectors), "bold")


def _summary(detectors: Sequence[DetectorReport]) -> str:
    nodes = len({host for each in detectors for host in each.hosts})
    clients = sum(each.for_clients for each in detectors)
    return f"{_counted(len(detectors), 'detector')} on {_counted(nodes, 'node')}, " + _counted(
        clients, "subscription of a client", "subscriptions of clients"
    )


# One detector.


def _about(report: DetectorsReport, name: str) -> Iterator[RenderableType]:
    reports = {each.id: each for each in report.detectors}
    detector = reports.get(name)
    if detector is None:
        yield Text(f"the detector {name} is not there any more", "yellow")
        return
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for label, text in _facts(detector):
        table.add_row(label, text)
    yield table
    for label, related in (("reads", _reads), ("is read by", _read_by)):
        if related(detector):
            yield Text()
            yield Text(label, "bold")
            tree = _tree()
            _grow(tree, related(detector), reports, related, {name})
            yield tree


def _facts(detector: DetectorReport) -> Iterator[tuple[str, Text]]:
    yield "detector", Text(detector.id, "bold cyan")
    yield "pattern", Text(detector.pattern)
    yield "node", _place(detector.node, detector.node_there)
    if detector.copies:
        yield "copies", Text(", ".join(_host(each) for each in detector.copies))
    if _has_sites(detector):
        yield "home", Text(str(detector.at))
    yield "policy", Text(detector.policy)
    if detector.distribution:
        yield "distribution", Text(detector.distribution)
    attributes = ", ".join(f"{name}: {kind}" for name, kind in detector.attributes.items())
    if detector.publishes:
        yield "publishes", Text(f"{detector.publishes}({attributes})")
    if detector.exports:
        yield "exports", Text(", ".join(detector.exports))
    yield "serves", Text(_served(detector))
    if detector.listening and _has_sites(detector):
        yield "heard at", Text(", ".join(f"{each.at} ({each.connections})" for each in detector.listening))
    for label, does in (("measured", detector.measured), ("expected", detector.expected)):
        if does is not None:
            yield label, Text(does_text(does, measured=label == "measured"))
    if detector.every:
        yield "types", Text("every primitive event")
    for place, each in enumerate(detector.inputs):
        by = [*each.sources, *(other.short for other in each.detectors)]
        said = f" from {', '.join(by)}" if by else ", which nobody publishes yet"
        yield "" if place else "types", Text.assemble(each.type, (said, "dim" if by else "yellow"))


def does_text(does: Measured, *, measured: bool = True) -> str:
    """What a detector does, in a row: bytes are those of payloads.

    Args:
        measured: whether it is more than an expectation, which knows of no state and no delay.
    """
    said = [
        f"load {show_figure(does.load)}/s",
        f"finds {show_figure(does.rate)}/s",
        f"sends {show_rate(does.size)}",
        f"reads {show_figure(does.events)} events/s in {show_rate(sum(does.inputs.values()))}",
    ]
    if measured:
        said.append(f"delay {show_time(does.delay)}" if does.delay else "nothing found of late")
        said.append(f"state {does.state:,} bytes")
    if does.engine:
        said.append(f"{does.engine} engine")
    return ", ".join(said)


def _has_sites(detector: DetectorReport) -> bool:
    """Whether it is worth saying where it publishes, and who listens where."""
    every = [detector.at, *(each.at for each in detector.copies), *(each.at for each in detector.listening)]
    return any(each.home or each.site for each in every)


def _host(host: Host) -> str:
    where = f" at {host.at}" if host.at.home or host.at.site else ""
    return f"{host.node}{where}{'' if host.there else ', which is gone'}"


# Trees.


def _forest(report: DetectorsReport) -> Tree:
    """The detectors that serve clients, each with its parts below it, and then those that did not show up there."""
    reports = {each.id: each for each in report.detectors}
    read = {part.id for each in report.detectors for part in each.parts}
    serving = [each for each in report.detectors if each.for_clients]
    others = [each for each in report.detectors if not each.for_clients]
    tree, shown = _tree(), set[str]()
    # Those that others read come first, so that these say "as above".
    serving.sort(key=lambda each: each.id not in read)
    _grow(tree, [_as_related(each) for each in serving], reports, _parts, shown)
    for each in sorted(others, key=lambda each: each.id in read):
        if each.id not in shown:
            _grow(tree, [_as_related(each)], reports, _parts, shown)
    return tree


def _grow(
    tree: Tree,
    tops: Sequence[Related],
    reports: Mapping[str, DetectorReport],
    below: Callable[[DetectorReport], Sequence[Related]],
    shown: set[str],
) -> None:
    """Add detectors to a tree, and below each what stands below it, each in full once.

    Args:
        tops: the detectors.
        reports: what is shown in full; of others no more than where they are.
        below: what stands below a detector.
        shown: what was shown in full; it grows.
    """
    waiting = [(each, tree) for each in reversed(tops)]
    while waiting:
        related, branch = waiting.pop()
        detector = reports.get(related.id)
        if detector is None or related.id in shown:
            branch.add(_mentioned(related, related.id in shown))
            continue
        shown.add(related.id)
        grown = branch.add(_described(detector))
        waiting += [(each, grown) for each in reversed(below(detector))]


def _tree() -> Tree:
    return Tree("", hide_root=True, guide_style="dim")


def _as_related(detector: DetectorReport) -> Related:
    return Related(detector.id, detector.short, detector.node)


def _parts(detector: DetectorReport) -> Sequence[Related]:
    return detector.parts


def _reads(detector: DetectorReport) -> Sequence[Related]:
    return detector.reads


def _read_by(detector: DetectorReport) -> Sequence[Related]:
    return detector.readers_of_it


def _described(detector: DetectorReport) -> RenderableType:
    """A detector: where it is and whom it serves, and below that its pattern."""
    said = [detector.policy]
    if detector.publishes:
        said.append(f"publishes {detector.publishes}")
    said.append(f"serves {_served(detector)}")
    head = Text.assemble((detector.short, "bold cyan"), " on ", _place(detector.node, detector.node_there))
    for copy in detector.copies:
        head.append_text(Text.assemble(" and ", _place(copy.node, copy.there)))
    head.append(f", {', '.join(said)}", "dim")
    pattern = Text(detector.pattern)
    for each in (head, pattern):
        each.overflow, each.no_wrap = "fold", False
    return Group(head, Padding(pattern, (0, 0, 0, 2), expand=False))


def _mentioned(related: Related, shown: bool) -> Text:
    """A detector whose description stands elsewhere, or nowhere."""
    text = Text.assemble((related.short, "cyan"), overflow="fold", no_wrap=False)
    if related.node is None:
        return text.append(", not in the directory", "yellow")
    return text.append(f" on {related.node}").append(", as above" if shown else "", "dim")


def _place(node: str, there: bool) -> Text:
    return Text(node) if there else Text(f"{node}, which is gone", "yellow")


def _served(detector: DetectorReport) -> str:
    """How many subscriptions a detector serves, those of readers among them."""
    said = _counted(detector.subscriptions, "subscription")
    return f"{said} ({_counted(detector.readers, 'reader')})" if detector.readers else said


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
