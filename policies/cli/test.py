"""The verb `test`: conformance cases, run on an engine or on a graph of detectors, and which of them fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer
from rich.text import Text

from distced.detectors.conformance.case_runner import ENGINES, CaseOutcome, Run, run_case
from distced.detectors.conformance.cases import ConformanceError, load_cases
from distced.detectors.frontends.languages import CORE, check_language
from distced.detectors.runtime.engines import notice
from distced.middleware.cli.options import verb
from distced.middleware.cli.output import AsJson, error_as_dict, messages, output, print_json, show_error, table
from distced.middleware.model.errors import DistcedError
from distced.policies.local_runner import cut_run

CutMode: TypeAlias = Literal["none", "full", "random"]
"""How patterns are cut."""


@dataclass(frozen=True)
class TestOptions:
    """Options of `distced test`."""

    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files or folders of cases, TOML.")]
    engine: Annotated[str, typer.Option("--engine", metavar="ENGINE", help="Engine: stepwise or columnar.")] = (
        "stepwise"
    )
    cut: Annotated[
        CutMode | None,
        typer.Option("--cut", help="Run each pattern as a graph of detectors with these cuts and random delays."),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="With --cut: random seed of cuts and delays, default 0."),
    ] = None
    language: Annotated[
        str,
        typer.Option("--language", metavar="NAME", help="Run the cases in this language only.", show_default=False),
    ] = ""
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every failure in full.")] = False
    as_json: AsJson = False


@verb
def test(options: TestOptions) -> int:
    """Run conformance cases: patterns, events, expected composite events.

    With --cut the patterns are cut into sub-patterns at every permitted place (full), at random ones (random) or not at
    all (none), and run as a graph of detectors under guaranteed detection: messages between them are delayed at random
    by the seed. The composite events must be the same.

    The exit code is 1 if any case fails. How cases are written: docs/reference/command-line.md.

    \b
    Examples:
      distced test tests/conformance
      distced test my-cases.toml --verbose
      distced test tests/conformance --cut random --seed 7
    """
    if options.cut is None:
        if options.seed is not None:
            raise DistcedError("--seed without --cut", given=options.seed, advice="nothing is random without --cut")
        results = run_cases(options.files, options.engine, language=options.language)
    else:
        seed = options.seed or 0
        how = options.cut if options.cut == "none" else f"{options.cut}, seed {seed}"
        results = run_cases(
            options.files, options.engine, cut_run(options.cut, seed), cut=how, language=options.language
        )
    show_results(results, in_full=options.verbose, as_json=options.as_json)
    return results.exit_code


@dataclass(slots=True)
class Results:
    """Outcomes of the cases of some files.

    Attributes:
        cut: how their patterns were cut; empty for not at all.
        files: number of files read.
        unreadable: errors of the others.
    """

    engine: str
    cut: str = ""
    files: int = 0
    outcomes: list[CaseOutcome] = field(default_factory=list)
    unreadable: list[DistcedError] = field(default_factory=list)

    def with_status(self, status: str) -> list[CaseOutcome]:
        return [each for each in self.outcomes if each.status == status]

    @property
    def exit_code(self) -> int:
        """0, 1 for a failed case, 2 for an unreadable file."""
        if self.unreadable:
            return 2
        return 1 if self.with_status("failed") else 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "cut": self.cut or None,
            "files": self.files,
            "passed": len(self.with_status("passed")),
            "failed": [_as_dict(each) for each in self.with_status("failed")],
            "unsupported": [_as_dict(each) for each in self.with_status("unsupported")],
            "unreadable": [error_as_dict(each) for each in self.unreadable],
        }


def run_cases(
    paths: Iterable[Path], engine: str, run: Run | None = None, *, cut: str = "", language: str = ""
) -> Results:
    """Run the cases of files and folders, of one language or of all; an unreadable file does not stop the others. `run`
    replaces the engine."""
    if language not in ("", CORE):
        check_language(language)
    if engine not in ENGINES:
        raise ConformanceError("no engine of this name", given=engine, allowed=", ".join(ENGINES))
    note = notice("columnar") if engine == "columnar" and run is None else None
    if note is not None:
        messages().print(note)
    results = Results(engine, cut)
    for path in (each for given in paths for each in _files(given)):
        try:
            cases = load_cases(path)
        except DistcedError as error:
            results.unreadable.append(error)
            continue
        results.files += 1
        results.outcomes += [run_case(case, engine, run) for case in cases if language in ("", case.language)]
    return results


def show_results(results: Results, *, in_full: bool, as_json: bool) -> None:
    """Print the results: failures in a table or in full, and a last line of counts."""
    if as_json:
        print_json(results.as_dict())
        return
    console = output()
    failed = results.with_status("failed")
    if in_full:
        for each in failed:
            console.print(Text(each.report() + "\n"))
    elif failed:
        console.print(table(("failed", "where", "what is wrong"), [_row(each) for each in failed]))
        console.print(Text("--verbose shows them in full", "dim"))
    for error in results.unreadable:
        show_error(error, messages())
    console.print(_last_line(results))


def _files(given: Path) -> Sequence[Path]:
    if not given.is_dir():
        return [given]
    found = sorted(given.glob("*.toml"))
    if not found:
        raise ConformanceError("a folder without a .toml file", given=str(given))
    return found


def _row(failed: CaseOutcome) -> tuple[Text, ...]:
    wrong = [failed.problem, *(f"missing {match}" for match in failed.missing)]
    wrong += [f"unexpected {match}" for match in failed.unexpected]
    # The name of the case stands beside it.
    where = failed.case.where.partition(" (")[0]
    return Text(failed.case.name, "red"), Text(where, "dim"), Text("\n".join(wrong))


def _last_line(results: Results) -> Text:
    failed, unsupported = len(results.with_status("failed")), len(results.with_status("unsupported"))
    said = Text.assemble((f"{len(results.with_status('passed'))} passed", "green"))
    if failed:
        said.append(", ").append(f"{failed} failed", "bold red")
    if unsupported:
        said.append(", ").append(f"{unsupported} in languages this version does not know", "yellow")
    if results.unreadable:
        said.append(", ").append(f"{len(results.unreadable)} files that cannot be read", "bold red")
    cut = f", patterns cut: {results.cut}" if results.cut else ""
    return said.append(f" ({results.files} file{'s' * (results.files != 1)}, {results.engine} engine{cut})", "dim")


def _as_dict(outcome: CaseOutcome) -> dict[str, Any]:
    return {
        "name": outcome.case.name,
        "where": outcome.case.where,
        "pattern": outcome.case.pattern,
        "problem": outcome.problem,
        "missing": list(map(str, outcome.missing)),
        "unexpected": list(map(str, outcome.unexpected)),
    }
