"""The report of an experiment: one HTML page that needs no other file, and the figures as PNG and SVG beside it.

Beside each figure stand the command that makes it again, the version and the seeds. A claim without its figure is an
error of the kind.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Final

from distced.simulations.experiments.reporting.drawing import draw
from distced.simulations.experiments.reporting.sections import Claim, Figure, Section, Table
from distced.simulations.experiments.reporting.statistics import METHOD
from distced.simulations.report import Column

PAGE: Final = "report.html"


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of the figures of a report.

    Attributes:
        command: makes the results again.
        versions: of distced and of its code, those that the results have.
        seeds: in words.
        cells: number with a result, of how many.
        failed: errors, by the names of cells.
    """

    command: str
    versions: Sequence[str]
    seeds: str
    cells: tuple[int, int]
    failed: dict[str, str]


def write_page(folder: Path, title: str, about: str, sections: Sequence[Section], origin: Origin) -> Path:
    """Write the page and the figures into a folder; returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    check_sections(sections)
    parts: list[str] = []
    numbers: dict[str, str] = {}
    for word, kind in (("Figure", Figure), ("Table", Table)):
        named = [each.name for each in sections if isinstance(each, kind)]
        numbers |= {name: f"{word} {number}" for number, name in enumerate(named, 1)}
    for section in sections:
        match section:
            case Figure():
                png, svg = draw(section.plot)
                (folder / f"{section.name}.png").write_bytes(png)
                (folder / f"{section.name}.svg").write_bytes(svg)
                parts.append(_figure(section, numbers[section.name], svg, origin))
            case Table():
                parts.append(_table(section, numbers[section.name], origin))
            case Claim():
                pass
    claims = [each for each in sections if isinstance(each, Claim)]
    content = _PAGE.substitute(
        title=escape(title),
        about="".join(f"<p>{escape(each)}</p>" for each in about.split("\n\n") if each.strip()),
        claims=_claims(claims, numbers),
        parts="\n".join(parts),
        method=escape(METHOD),
        origin=_origin(origin),
    )
    page = folder / PAGE
    page.write_text(content, encoding="utf-8")
    return page


def check_sections(sections: Sequence[Section]) -> None:
    """Check that names are there once, and that each claim has its figure; raises ValueError."""
    names = [each.name for each in sections if not isinstance(each, Claim)]
    for each in sections:
        if isinstance(each, Claim):
            if each.figure not in names:
                raise ValueError(f"a claim without its figure, {each.figure}: {each.text}")
        elif names.count(each.name) > 1:
            raise ValueError(f"two sections of one name, {each.name}")


def _figure(figure: Figure, number: str, svg: bytes, origin: Origin) -> str:
    image = b64encode(svg).decode()
    return (
        f'<figure id="{escape(figure.name)}"><h2>{escape(figure.title)}</h2>'
        f'<img alt="{escape(figure.title)}" src="data:image/svg+xml;base64,{image}">'
        f"<figcaption><b>{number}.</b> {escape(figure.caption)}{_source(origin)}</figcaption></figure>"
    )


def _table(table: Table, number: str, origin: Origin) -> str:
    heads = "".join(f'<th class="{_align(column)}">{escape(_header(column))}</th>' for column in table.columns)
    lines = []
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        lines.append(
            "".join(f'<td class="{_align(column)}">{escape(str(column.text(cell)))}</td>' for column, cell in cells)
        )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<figure id="{escape(table.name)}"><h2>{escape(table.title)}</h2>'
        f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
        f"<figcaption><b>{number}.</b> {escape(table.caption)}{_source(origin)}</figcaption></figure>"
    )


def _header(column: Column) -> str:
    return f"{column.name} [{column.unit}]" if column.unit else column.name


def _align(column: Column) -> str:
    return "text" if column.format is None else "number"


def _source(origin: Origin) -> str:
    versions = escape(", ".join(origin.versions))
    return (
        f'<p class="source">Made by <code>{escape(origin.command)}</code> · distced {versions} · '
        f"{escape(origin.seeds)}</p>"
    )


def _claims(claims: Sequence[Claim], numbers: dict[str, str]) -> str:
    if not claims:
        return ""
    words = {True: ("yes", "holds"), False: ("no", "does not hold"), None: ("open", "not decided")}
    rows = []
    for claim in claims:
        mark, verdict = words[claim.holds]
        rows.append(
            f'<tr><td class="{mark}">{verdict}</td><td>{escape(claim.text)}</td><td>{escape(claim.measured)}</td>'
            f'<td><a href="#{escape(claim.figure)}">{numbers[claim.figure]}</a></td></tr>'
        )
    return (
        '<h2>Claims</h2><div class="wide"><table><thead><tr><th>verdict</th><th>claim</th><th>measured</th><th>shown in'
        f"</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _origin(origin: Origin) -> str:
    done, cells = origin.cells
    lines = [f"<p>{done:,} of {cells:,} runs have a result.</p>"]
    if done < cells:
        lines.append('<p class="warning">Runs are missing: the figures are those of the others.</p>')
    if len(origin.versions) > 1:
        lines.append('<p class="warning">The results are of several versions of the code.</p>')
    for name, error in origin.failed.items():
        last = error.strip().rpartition("\n")[2]
        lines.append(f'<p class="warning">Failed: <code>{escape(name)}</code>: {escape(last)}</p>')
    lines.append(f"<p>To make all of it again: <code>{escape(origin.command)}</code></p>")
    return "".join(lines)


def command_of(file: str, seeds: int | None, folder: Path) -> str:
    """The command that makes results and report."""
    words = ["distced", "experiment", "run", file]
    if seeds is not None:
        words += ["--seeds", str(seeds)]
    return shlex.join([*words, "--out", str(folder)])


_PAGE: Final = Template("""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a;
  background: #fff }
h1 { font-size: 1.7rem; line-height: 1.2 } h2 { font-size: 1.15rem; margin: 0 0 .5rem }
figure { margin: 2.5rem 0 } img { width: 100%; height: auto }
figcaption { font-size: .92rem; color: #333 } .source { font-size: .8rem; color: #666; margin: .3rem 0 }
table { border-collapse: collapse; font-size: .88rem } th, td { padding: .25rem .7rem .25rem 0; vertical-align: top }
th { text-align: left; border-bottom: 1px solid #999 } tbody tr { border-bottom: 1px solid #eee }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap } .wide { overflow-x: auto }
.yes { color: #00694b; white-space: nowrap } .no { color: #a33b00; font-weight: bold; white-space: nowrap }
.open { color: #666; white-space: nowrap } .warning { color: #a33b00 } code { font-size: .9em }
</style></head><body>
<h1>$title</h1>
$about
$claims
$parts
<h2>How this was made</h2>
<p>$method</p>
$origin
</body></html>
""")
