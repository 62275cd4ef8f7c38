"""The verb `fence`: has detectors go on without a source that is gone for good, or silent for too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rich.text import Text
from typer import Argument

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.lookup import check_source
from distced.brokers.live.observers import LiveDirectory
from distced.middleware.cli.options import DEFAULT, ServerOption, verb
from distced.middleware.cli.output import AsJson, output, print_json
from distced.middleware.cli.signals import ending
from distced.middleware.wire.topics import administration_topic, directory_topic


@dataclass(frozen=True)
class FenceOptions:
    """Options of `distced fence`."""

    source: Annotated[str, Argument(metavar="SOURCE", help="Source that detectors are to go on without.")]
    server: ServerOption = DEFAULT
    as_json: AsJson = False


@verb
def fence(options: FenceOptions) -> int:
    """Fence off a source: detectors no longer wait for it.

    Under guaranteed detection a source that is silent holds back all detectors that read it (`distced nodes` shows it).
    Events that it publishes later are late, and reported as such, until it is announced again. The exit code is 2 for
    an unknown source.

    \b
    Examples:
      distced nodes
      distced fence door
    """
    source = options.source
    with ending(), LiveDirectory(options.server) as reading:
        readers, _ = reading.look(lambda directory: _readers(directory, source))
        # Detectors here go on; those to come do not begin to wait.
        reading.publish({administration_topic("fence", source): b""}, retain=False)
        reading.publish({directory_topic("source", source): b""})
    if options.as_json:
        print_json({"source": source, "detectors": readers})
    else:
        count = "1 detector goes" if len(readers) == 1 else f"{len(readers)} detectors go"
        output().print(Text.assemble((source, "bold"), f" fenced off: {count} on without it"))
    return 0


def _readers(directory: Directory, source: str) -> list[str]:
    """Detectors that read a type of a source. Raises `DistcedError` for an unknown one."""
    check_source(directory, source)
    types = set(directory.sources[source].types)
    return [
        name
        for name, each in sorted(directory.detectors.items())
        if each.reads is None or not types.isdisjoint(each.reads)
    ]
