"""The verb `translate`: prints the core text of a pattern in another language."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from distced.detectors.cli.pattern_options import LanguageOption, MappingOption, TypesOption, registry_of
from distced.detectors.frontends.languages import LANGUAGES
from distced.detectors.highlighting.terminal import highlighted
from distced.detectors.pattern_files import compile_source, read_source, translate_source
from distced.middleware.cli.options import verb
from distced.middleware.cli.output import AsJson, output, print_json
from distced.middleware.cli.output_files import ForceOption, check_output
from distced.middleware.model.errors import DistcedError
from distced.middleware.patterns.printer import format_file


@dataclass(frozen=True)
class TranslateOptions:
    """Options of `distced translate`."""

    pattern: Annotated[str, typer.Argument(metavar="TEXT|FILE", help="Text, file, or - for standard input.")]
    language: LanguageOption = ""
    types: TypesOption = None
    mapping: MappingOption = None
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Output file; default: standard output.")
    ] = None
    force: ForceOption = False
    as_json: AsJson = False


@verb
def translate(options: TranslateOptions) -> int:
    """Print the pattern file that a text in another language means.

    Patterns in other languages are detected by translation into the core language. The output is a pattern file, which
    compiled again gives the same detectors.

    \b
    Examples:
      distced translate stock.cel --types types.toml > stock.pattern
      distced translate 'STREAM S(p) SELECT p FROM S NEXT{$2.p > $1.p} S' --language cel
    """
    check_output("--out", options.out, force=options.force, inputs=[options.pattern, options.types, options.mapping])
    source, registry = read_source(options.pattern, options.language), registry_of(options.types, options.mapping)
    if not source.language:
        raise DistcedError(
            "a pattern in the core language, which needs no translation",
            given=source.name or source.text,
            allowed=", ".join(LANGUAGES),
            advice="say its language with --language, or by the ending of its file",
        )
    # What the core refuses is no translation.
    patterns = compile_source(source, registry)
    translation = translate_source(source, registry)
    text = format_file(translation.file)
    if options.as_json:
        ids = [each.canonical_id for each in patterns.compiled]
        results = [{"query": name, "id": each} for name, each in zip(translation.results, ids, strict=True)]
        print_json({"language": source.language, "text": text, "results": results})
    elif options.out is not None:
        _write(options.out, text)
    else:
        _show(text)
    return 0


def _show(text: str) -> None:
    console = output()
    if console.is_terminal:
        console.print(highlighted(text), end="", soft_wrap=True)
    else:
        typer.echo(text, nl=False)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DistcedError("cannot write the file", given=str(path), advice=str(error)) from None
