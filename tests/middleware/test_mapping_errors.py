"""Mapping files that are wrong: what is said of them, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from distced.middleware.mapping import load_mapping, parse_mapping
from distced.middleware.model.errors import MappingError

RULE = '[[rule]]\ntopic = "t/{d}"\ntype = "E"\nsource = "s"\n'

WRONG = [
    # the file, what the error says
    ("[[rule", ["not TOML", "at home.toml"]),
    ("", ["a key is missing: rule", "at home.toml"]),
    ("rule = []", ["a mapping without a rule"]),
    ("rules = 1\nrule = []", ["unknown key: rules", "allowed: rule, file, defaults"]),
    (RULE + "topc = 1", ["unknown key: topc", "topic, format", "at home.toml, rule 1"]),
    (RULE + "[[rule]]\nname = 'b'\ntype = 1", ["not a value for this key: 1", "text", "rule 2, type"]),
    (RULE + "time = {forma = 's'}", ["unknown key: forma", "timezone", "rule 1, time"]),
    (RULE + "format = 'xml'", ["not a value for this key: xml", "allowed: json, text, csv", "rule 1, format"]),
    (RULE + "time = {clock = 'odd'}", ["odd", "allowed: as-is, monotone, offset, zone", "rule 1, time.clock"]),
    (RULE + "when = [{path = 'a'}, {pth = 'b'}]", ["unknown key: pth", "rule 1, when.2"]),
    (RULE + "when = [{equals = 1}]", ["a key is missing: path", "a path or a text", "rule 1, when.1"]),
    (RULE + "when = [{path = 'a'}, {path = 'b', text = '{b}'}]", ["both a path and a text", "rule 1, when.2"]),
    (RULE + "when = [{text = '{$e}'}]", ["there is no $e here", "rule 1, when.1"]),
    (RULE + "attributes = {x = {kind = 'number', lookup = 'none.csv'}}", ["cannot read the lookup: none.csv"]),
    (RULE + "attributes = {x = {kind = 'number', columns = ['a', 'b']}}", ["columns of no file", "attributes.x"]),
    (RULE + "a." * 30 + "b = 1", ["a key nested too deeply: a.a", "20 parts", "home.toml, line 5"]),
    (RULE + "x = " + "[" * 3_000, ["TOML nested too deeply"]),
    (RULE + "x = " + "1" * 5_000, ["not TOML", "4300 digits"]),
    (RULE + "x = '" + "1" * 600_000 + "'", ["TOML that is too large", "524,288 bytes"]),
    (RULE + "when = [{path = 'a', equals = 1, above = 2}]", ["several tests", "equals, above", "rule 1, when"]),
    (RULE + "when = [{path = 'a', matches = '('}]", ["not a regular expression: (", "rule 1, when"]),
    (RULE + "when = [{path = '$e'}]", ["there is no $e here", "$topic", "rule 1, when"]),
    (RULE + "when = [{path = '$3'}]", ["there is no $3 here"]),
    (RULE + "when = [{path = '$key'}]", ["there is no $key here"]),
    (RULE + "when = [{path = 'a..b'}]", ["not a path: a..b"]),
    (RULE + "[defaults]\nname = 'x'", ["not for defaults: name", "at home.toml, defaults"]),
    (RULE + "[defaults]\nfinl = true", ["unknown key: finl", "at home.toml, defaults"]),
    ("[[rule]]\nsource = 's'\ntime = {path = 't'}", ["a key is missing: type", "rule 1"]),
    ("[[rule]]\nname = 'n'\ntype = 'E'\ntime = {path = 't'}", ["a key is missing: source", "rule 1 (n)"]),
    ("[[rule]]\ntype = 'E'\nsource = 's'", ["rows have no arrival", "file.arrival", "rule 1, time"]),
    ("[[rule]]\ntype = 'E'\nsource = 's'\ntime = {path = 't', clock = 'zone'}", ["rows have no arrival"]),
    (
        "[[rule]]\ntype = 'E'\nsource = 's'\ntime = {path = 't', format = '%b %d %H'}",
        ["no year: %b %d %H", "rule 1, time"],
    ),
    (RULE.replace("t/{d}", "t/a+"), ["not a topic filter: t/a+", "rule 1, topic"]),
    (RULE.replace("t/{d}", "t/#/a"), ["not a topic filter"]),
    (RULE.replace("t/{d}", "{d}/{d}"), ["a name of its own: {d}/{d}"]),
    (RULE.replace("t/{d}", "t/{row}"), ["a name of its own"]),
    (RULE.replace('"s"', '"{a"'), ["a brace without its partner: {a", "rule 1, source"]),
    (RULE.replace('"s"', '"{}"'), ["not a path", "rule 1, source"]),
    (RULE.replace('"E"', '"E-1"'), ["not a name for a type or an attribute: E-1", "rule 1, type or attributes"]),
    (RULE.replace('"E"', "{lookup = {a = 'A'}}"), ["a lookup of nothing", "rule 1, type"]),
    (RULE.replace('"E"', "{path = 'a', text = 'b', lookup = {}}"), ["both a path and a text", "rule 1, type"]),
    (RULE + "attributes = {x = 'text'}", ["not a kind: text", "number, string, boolean", "rule 1, attributes.x"]),
    (RULE + "attributes = {x = {path = 'x'}}", ["a key is missing: kind", "rule 1, attributes.x"]),
    (RULE + "attributes = {x = {kind = 'text'}}", ["text", "number, string, boolean", "rule 1, attributes.x, kind"]),
    (RULE + "attributes = {x = {kind = 'string', scale = 2}}", ["scale means nothing for a string", "attributes.x"]),
    (RULE + "attributes = {x = {kind = 'number', true = [1]}}", ["true means nothing for a number"]),
    (
        RULE + "attributes = {x = {kind = 'number', scale = 2, lookup = {a = 1}}}",
        ["scale means nothing for a number with a lookup"],
    ),
    (RULE + "attributes = {x = {kind = 'boolean', true = [1], above = 2}}", ["several tests for a boolean"]),
    (RULE + "attributes = {x = {kind = 'number', default = 'a'}}", ["default of 'x' is no number: a"]),
    (RULE + "attributes = {x = {kind = 'number', default = true}}", ["default of 'x' is no number"]),
    (RULE + "attributes = {x = {kind = 'number', default = nan}}", ["default of 'x' is no number"]),
    (RULE + "attributes = {x = {kind = 'string', lookup = {a = 1}}}", ["lookup.a of 'x' is no string: 1"]),
    (RULE + "attributes = {x = {kind = 'number', range = [2, 1]}}", ["a range upside down"]),
    (RULE + "attributes = {x = {kind = 'number', range = [2]}}", ["not a value for this key", "attributes.x, range"]),
    (RULE + "attributes = {'a b' = 'number'}", ["not a name for a type or an attribute: a b"]),
    (
        RULE + "attributes = {x = 'number'}\n" + RULE + "attributes = {x = 'string'}",
        ["E.x has two kinds: string", "allowed: number", "rule 2, attributes.x"],
    ),
    (
        RULE.replace('"E"', "{path = 'k', lookup = {a = 'E', b = 'F'}}") + RULE + "attributes = {x = 'string'}",
        ["F lacks the attribute 'x'", "rule 1"],
    ),
    (RULE + "time = {path = 'a', format = '%Y-%Q'}", ["not a format for a time: %Y-%Q", "rule 1, time"]),
    (RULE + "time = {path = 'a', format = '%H:%M'}", ["no month and day"]),
    (RULE + "time = {path = 'a', format = 'epoch'}", ["not a format for a time: epoch", "iso, s, ms"]),
    (RULE + "time = {path = 'a', format = 's', year = 2005}", ["a year for a format that has one"]),
    (RULE + "time = {path = 'a', timezone = 'Mars/Base'}", ["not a time zone: Mars/Base", "rule 1, time"]),
    (RULE + "time = {path = 'a', timezone = '+25:00'}", ["not a time zone"]),
    (RULE + "time = {path = 'a', uncertainty = 'short'}", ["uncertainty is no duration: short", "rule 1, time"]),
    (RULE + "time = {start = 'a'}", ["one end of an interval"]),
    (RULE + "time = {path = 'a', start = 'a', end = 'b'}", ["both a time and an interval"]),
    (RULE + "time = {path = 'a', clock = 'offset'}", ["clock = 'offset' needs a skew"]),
    (RULE + "duplicates = {by = ['a']}", ["a key is missing: within", "rule 1, duplicates"]),
    (RULE + "duplicates = {within = 5}", ["not a value for this key: 5", "rule 1, duplicates.within"]),
    (RULE + "duplicates = {within = 'ever'}", ["within is no duration: ever", "rule 1, duplicates"]),
    (RULE + "format = 'csv'", ["a csv payload without columns"]),
    (RULE + "columns = ['a']", ["columns of what is no csv"]),
    (RULE + "format = 'csv'\ncolumns = ['a']\nseparator = ', '", ["not a separator", "rule 1, separator"]),
    ("[file]\ntopic = 't'\n" + RULE, ["half a recorded message: t", "home.toml, file"]),
    ("[file]\npattern = '('\n" + RULE, ["not a regular expression", "home.toml, file, pattern"]),
    ("[file]\npattern = 'a'\n" + RULE, ["no named group: a", "home.toml, file, pattern"]),
    ("[file]\npattern = '(?P<a>.)'\ncolumns = ['a']\n" + RULE, ["both a pattern and columns"]),
    ("[file]\nseparator = '::'\n" + RULE, ["not a separator: ::", "home.toml, file, separator"]),
    ("[file]\narrival = {path = '$topic'}\n" + RULE, ["there is no $topic here", "home.toml, file, arrival"]),
    ("[file]\narrival = {path = 'a', format = '%b %d'}\n" + RULE, ["no year: %b %d"]),
    (RULE + "name = 'x'\n" + RULE + "name = 'x'", ["two rules of one name: x", "rule 2 (x)"]),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_wrong_mapping_is_an_error_with_its_place(text: str, said: list[str]) -> None:
    with pytest.raises(MappingError) as caught:
        parse_mapping(text, name="home.toml")
    for each in said:
        assert each in str(caught.value)
    assert "home.toml" in str(caught.value)


def test_missing_mapping_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MappingError, match="cannot read the mapping"):
        load_mapping(tmp_path / "none.toml")


def test_file_is_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "home.toml"
    path.write_text(RULE, encoding="utf-8")
    assert load_mapping(path).name == str(path)
    path.write_bytes(b"\xff")
    with pytest.raises(MappingError, match="cannot read the mapping"):
        load_mapping(str(path))
