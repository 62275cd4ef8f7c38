"""`distced` command: its frame, into which every package hangs its own verbs.

A verb is an entry point of the group `distced.verbs`: its name, and a function with typer's annotations, or a typer
application where it has verbs of its own. Only the module of the verb that is called is imported; the list of verbs
reads their summaries from the source. Importing every package's verbs outright was rejected: imports run one way, this
module is the ground floor, and the drivers behind the verbs take a second to load.

Exit codes: 0; 1 where a verb ran and the answer is no; 2 where it was given something wrong; 130 where it was
interrupted. Unexpected exceptions are bugs and keep their traceback.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.core
from rich.text import Text

from distced.middleware.cli.output import error_as_dict, messages, print_json, show_error
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.extras import missing

VERBS: Final = "distced.verbs"  # group of entry points that are verbs
WRONG: Final = 2
INTERRUPTED: Final = 130

# typer does not export it, and has moved it more than once.
_UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]


class VerbGroup(typer.core.TyperGroup):
    """Verbs of all installed packages, each loaded when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted({entry.name for entry in entry_points(group=VERBS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        for entry in entry_points(group=VERBS, name=cmd_name):
            return _command(entry)
        return None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        entries = sorted({entry.name: entry for entry in entry_points(group=VERBS)}.items())
        limit = formatter.width - 6 - max((len(name) for name, _ in entries), default=0)
        rows = [
            (name, typer.core.TyperCommand(name, help=_help(entry)).get_short_help_str(limit))
            for name, entry in entries
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            near = get_close_matches(args[0], names, n=1)
            advice = f"did you mean {near[0]}?" if near else "distced --help lists them"
            raise DistcedError("no verb of this name", given=args[0], allowed=", ".join(names), advice=advice)
        return super().resolve_command(ctx, args)


def _help(entry: EntryPoint) -> str:
    """Help text of a verb, from the source of its module where that says it, else from the loaded verb."""
    try:
        return _documented(entry.module, entry.attr) or _command(entry).help or ""
    except (ImportError, OSError, SyntaxError):
        return _command(entry).help or ""


def _documented(module: str, name: str) -> str:
    """Docstring of a function of a module, or `help` of a typer application, without importing; empty for none."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    for node in ast.parse(Path(spec.origin).read_bytes()).body:
        match node:
            case ast.FunctionDef() if node.name == name:
                return ast.get_docstring(node) or ""
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call(keywords=keywords)) if target == name:
                return next((ast.literal_eval(each.value) for each in keywords if each.arg == "help"), "")
            case ast.ImportFrom(module=str(origin)) if any(each.name == name for each in node.names):
                return _documented(origin, name)
    return ""


def _command(entry: EntryPoint) -> Any:
    """Command of an entry point; where its module is broken, one that says so and fails when it is called."""
    try:
        verb = entry.load()
    except (ImportError, AttributeError) as error:
        verb = _broken(error)
    if isinstance(verb, typer.Typer):
        return typer.main.get_group(verb)
    # Plain help: rich's would read the brackets of patterns as its own markup.
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(entry.name)(verb)
    return typer.main.get_command(app)


def _broken(error: Exception) -> Any:
    def verb() -> None:
        raise error

    verb.__doc__ = f"(cannot be loaded: {error})"
    return verb


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"distced {version('distced')}")
        raise typer.Exit


app = typer.Typer(
    cls=VerbGroup,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Details and examples of a verb: distced check --help.",
)


@app.callback()
def distced(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Subscribe to patterns of events over MQTT, detected by mobile detectors."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    # Streams closed from the start are None, and their numbers would be given to a connection.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that lacks a character of a pattern shows its number.
            stream.reconfigure(errors="backslashreplace")
    try:
        result = typer.main.get_command(app)(args=given, prog_name="distced", standalone_mode=False)
    except DistcedError as error:
        return _fail(error, as_json)
    except ImportError as error:
        if (wanted := missing(error)) is None:
            raise
        return _fail(wanted, as_json)
    except _UsageError as error:
        _show_usage(error, as_json)
        return WRONG
    except (typer.Abort, KeyboardInterrupt):
        messages().print("interrupted")
        return INTERRUPTED
    return result if isinstance(result, int) else 0


def _fail(error: DistcedError, as_json: bool) -> int:
    if as_json:
        print_json(error_as_dict(error))
    else:
        show_error(error)
    return WRONG


def _show_usage(error: Any, as_json: bool) -> None:
    """Show an error of the command line itself."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    command = error.ctx.command_path if error.ctx is not None else "distced"
    advice = f"try {command} --help"
    if as_json:
        print_json({"error": "UsageError", "problem": error.format_message(), "advice": advice})
        return
    console = messages()
    if error.ctx is not None:
        console.print(Text(error.ctx.get_usage(), "dim"))
    console.print(Text.assemble(("error: ", "bold red"), (error.format_message(), "bold")))
    console.print(Text.assemble(("  advice: ", "green"), advice))
