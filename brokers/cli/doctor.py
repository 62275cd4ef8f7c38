"""The verb `doctor`: faults of an installation and of a running deployment, with what to do about each."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
from rich.text import Text
from typer import Option

from distced.brokers.doctor.checks.findings import Finding, State, is_bad
from distced.brokers.doctor.examination import Wanted, counted_states, examine, worst_last
from distced.middleware.cli.options import DEFAULT, HomeOption, ServerOption, verb
from distced.middleware.cli.output import AsJson, messages, output, print_json
from distced.middleware.cli.signals import ending
from distced.middleware.model.errors import DistcedError

LONGEST: Final = 600.0
"""Longest observation, s."""

_COLOURS: Final = {
    State.OK: "green",
    State.INFORMATION: "cyan",
    State.NOT_CHECKED: "magenta",
    State.WARNING: "yellow",
    State.ERROR: "bold red",
}

_PLURAL: Final = (State.WARNING, State.ERROR)


@dataclass(frozen=True)
class DoctorOptions:
    """Options of `distced doctor`."""

    server: ServerOption = DEFAULT
    home: HomeOption = None
    seconds: Annotated[float, Option(metavar="N", help="Length of the observation of the deployment, s.")] = 5.0
    mosquitto_conf: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Configuration of the server; looked for where it runs on this machine.",
            show_default=False,
        ),
    ] = None
    checkpoints: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            help="Store of checkpoints of the nodes on this machine; none for none.",
            show_default=False,
        ),
    ] = None
    as_json: AsJson = False


@verb
def doctor(options: DoctorOptions) -> int:
    """Find faults of this installation, of the MQTT server and of the running deployment, and what to do about each.

    Looks at versions and limits here, at files for the access, at certificate, login and limits of the server, and
    for some seconds at the deployment: clocks, names that are used twice, dead nodes, sources that hold detectors back,
    dead letters. What cannot be checked is said, with the reason. Nothing is changed. The exit code is 1 with a
    warning or an error.

    \b
    Examples:
      distced doctor
      distced doctor --config office/participants/root/distced.toml --seconds 30
      distced doctor --mosquitto-conf office/servers/main/mosquitto.conf --json
    """
    if not 0 < options.seconds <= LONGEST:
        allowed = f"more than 0, up to {LONGEST:g}"
        raise DistcedError("not the length of an observation", given=f"{options.seconds:g} s", allowed=allowed)
    wanted = Wanted(
        options.server, options.home or "", options.seconds, options.mosquitto_conf, options.checkpoints or ""
    )
    console = messages()
    shown = console.status("") if console.is_terminal and not options.as_json else nullcontext()
    with ending(), shown as status:
        findings = examine(wanted, lambda what: None if status is None else status.update(f"looking at {what}"))
    if options.as_json:
        print_json({"findings": msgspec.to_builtins(findings), "counts": counted_states(findings)})
    else:
        for line in finding_lines(worst_last(findings)):
            output().print(line)
        messages().print(summary(findings))
    return 1 if is_bad(findings) else 0


def finding_lines(findings: Iterable[Finding]) -> list[Text]:
    """Lines of findings, in columns, each with its remedy below it."""
    listed = list(findings)
    states, checks = (max((len(each) for each in column), default=0) for column in _columns(listed))
    lines = []
    for each in listed:
        lines.append(
            Text.assemble(
                (f"{each.state:<{states}}", _COLOURS[each.state]), "  ", (f"{each.check:<{checks}}", "bold"), "  ",
                (_printable(each.subject), "cyan"), f": {_printable(each.text)}",
            )
        )  # fmt: skip
        if each.remedy:
            lines.append(Text.assemble(" " * (states + checks + 4), ("→ ", "dim"), (_printable(each.remedy), "green")))
    return lines


def _printable(text: str) -> str:
    """Text without what moves a terminal: names in the directory may be anybody's."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _columns(findings: list[Finding]) -> tuple[list[str], list[str]]:
    return [str(each.state) for each in findings], [each.check for each in findings]


def summary(findings: Iterable[Finding]) -> Text:
    """Line with the number of findings by state."""
    counts = {state: count for state, count in counted_states(findings).items() if count}
    said = (f"{count} {state}{'s' * (state in _PLURAL and count > 1)}" for state, count in reversed(counts.items()))
    return Text(", ".join(said), "bold")
