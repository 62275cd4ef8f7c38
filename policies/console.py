"""The verbs of policies.

`test` runs conformance cases, also on cut patterns under guaranteed detection; `topology` shows where a deployment
stands, or makes one up.

What takes time to import is imported inside the verb that needs it.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from middleware.console_output import AsJson
from middleware.errors import DistcedError


class Cut(StrEnum):
    """How patterns are cut."""

    NONE = "none"
    FULL = "full"
    RANDOM = "random"


class Format(StrEnum):
    """What `topology` writes."""

    TEXT = "text"
    SVG = "svg"
    DOT = "dot"
    JSON = "json"
    TOML = "toml"


class RandomKind(StrEnum):
    """How the sites of a topology made by chance are linked."""

    STAR = "star"
    RING = "ring"
    TREE = "tree"
    GEOMETRIC = "geometric"
    METRO = "metro"


def test(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of cases, or folders of them.")],
    engine: Annotated[str, typer.Option("--engine", help="The engine to run them on.")] = "stepwise",
    cut: Annotated[
        Cut | None,
        typer.Option("--cut", help="Run each pattern as a graph of detectors, with any delays between them."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="With --cut: what chance begins with.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every failure in full.")] = False,
    as_json: AsJson = False,
) -> int:
    """Run conformance cases: patterns, events, what must be found.

    With --cut the patterns are cut into sub-patterns, wherever that is allowed (full) or somewhere (random), or not at
    all (none), and run as a graph of detectors under guaranteed detection: messages between them are delayed at random,
    and arrive in an order that depends on the seed. What is found must be the same.

    The exit code is 1 if any case fails. How cases are written: docs/command-line.md.

    \b
    Examples:
      distced test tests/conformance
      distced test my-cases.toml --verbose
      distced test tests/conformance --cut random --seed 7
    """
    from detectors.cases_verb import run_cases, show_results

    if cut is None:
        if seed is not None:
            raise DistcedError("--seed without --cut", given=seed, advice="nothing is left to chance without --cut")
        results = run_cases(files, engine)
    else:
        from policies.cut_cases import cut_run

        how = cut.value if cut is Cut.NONE else f"{cut.value}, seed {seed or 0}"
        results = run_cases(files, engine, cut_run(cut.value, seed or 0), cut=how)
    show_results(results, in_full=verbose, as_json=as_json)
    return results.exit_code


def topology(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A topology, or - for one on standard input.")
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="How it is shown: text, or toml for one that is made up.", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to this file.")] = None,
    random: Annotated[
        RandomKind | None, typer.Option("--random", help="Make one up, with sites linked in this way.")
    ] = None,
    sites: Annotated[int | None, typer.Option("--sites", help="With --random: how many; 6 unless said.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="With --random: broker nodes; 6 unless said.")] = None,
    publishers: Annotated[int | None, typer.Option("--publishers", help="With --random: 8 unless said.")] = None,
    subscribers: Annotated[int | None, typer.Option("--subscribers", help="With --random: 3 unless said.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="With --random: what chance begins with; 0.")] = None,
    as_json: AsJson = False,
) -> int:
    """Show a topology: sites, who is there, links; or make one up.

    A topology is a TOML file of sites (MQTT servers), broker nodes, publishers, subscribers and links with latency,
    bandwidth and cost. It is checked; what is no error and yet worth saying goes to standard error.

    With --random a topology of so many parts is made, the same for the same seed.

    \b
    Examples:
      distced topology office.toml
      distced topology office.toml --format svg --out office.svg
      distced topology --random metro --sites 12 --seed 7 > metro.toml
      distced topology --random star | distced topology - --format svg --out star.svg
    """
    from policies.topology_verb import Wanted, show_topology

    counts = {"sites": sites, "nodes": nodes, "publishers": publishers, "subscribers": subscribers}
    given = {name: count for name, count in counts.items() if count is not None}
    if as_json:
        form = Format.JSON
    elif form is None:
        form = Format.TEXT if random is None else Format.TOML
    show_topology(Wanted(file, None if random is None else random.value, given, seed), form.value, out)
    return 0
