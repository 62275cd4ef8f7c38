"""Lines of keys in TOML texts."""

from __future__ import annotations

import pytest

from distced.middleware.model.toml_text import line_of

TEXT = '''# a file
title = "x"

[policies]
# first
names = [
  "a",
  "b",
]
text = """
names = 1
[other]
"""
inline = { deep = { er = 1 } }

[[policies.topologies]]
name = "star"

[[policies.topologies]]
name = "tree"   # with a comment
a.b.c = 3
[last]
"quoted key" = 1
'''

CASES = {
    "key": (("title",), 2),
    "table": (("policies",), 4),
    "list": (("policies", "names"), 6),
    "entry of a list": (("policies", "names", 1), 6),
    "text of several lines": (("policies", "text"), 10),
    "inline table": (("policies", "inline", "deep", "er"), 14),
    "second table of a list": (("policies", "topologies", 1), 19),
    "key in the second table": (("policies", "topologies", 1, "name"), 20),
    "dotted key": (("policies", "topologies", 1, "a", "b", "c"), 21),
    "quoted key": (("last", "quoted key"), 23),
    "missing": (("policies", "nowhere"), 0),
    "missing entry": (("policies", "names", 2), 0),
    "key of a number": (("title", "x"), 0),
}


@pytest.mark.parametrize(("path", "line"), CASES.values(), ids=CASES)
def test_line_of_key(path: tuple[str | int, ...], line: int) -> None:
    assert line_of(TEXT, path) == line


def test_text_that_is_no_toml_has_no_lines() -> None:
    assert line_of("a = [", ("a",)) == 0
