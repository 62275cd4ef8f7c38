"""Marks of tests that need Graphviz or matplotlib; texts and overlaps in what Graphviz made."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from itertools import combinations
from xml.etree import ElementTree

import pytest

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed: there is no dot")
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")

SVG = "{http://www.w3.org/2000/svg}"


def svg_texts(svg: str) -> list[str]:
    """The texts of a picture, as they are read: a run of several faces is several texts."""
    return ["".join(each.itertext()).replace("\xa0", " ") for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def overlapping(source: str) -> list[tuple[str, str]]:
    """The nodes of a graph in DOT that lie on one another."""
    done = subprocess.run(["dot", "-Tplain"], input=source.encode(), capture_output=True, check=True)
    boxes = []
    for line in done.stdout.decode().splitlines():
        if line.startswith("node "):
            name, rest = line[5:].split('" ', 1) if line[5] == '"' else line[5:].split(" ", 1)
            x, y, width, height = map(float, rest.split()[:4])
            boxes.append((name.strip('"'), x, y, width, height))
    return [
        (a[0], b[0])
        for a, b in combinations(boxes, 2)
        if abs(a[1] - b[1]) < (a[3] + b[3]) / 2 - 0.01 and abs(a[2] - b[2]) < (a[4] + b[4]) / 2 - 0.01
    ]
