"""The page about distribution policies: its tables say what is, its code runs, and its policy can be installed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from distced.middleware.model.errors import DistcedError
from distced.policies.distribution import policy as policies
from distced.policies.distribution.candidate import Candidate
from distced.policies.distribution.choose.place_all import place
from distced.policies.distribution.policy import (
    NAMED,
    Decomposition,
    Locality,
    Reuse,
    installed,
    parse_policy,
    replicas_of,
)
from tests.policies.test_suggest import EAST, LINE
from tests.support.deployments import situation_of

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "policies.md").read_text(encoding="utf-8")


def code(number: int) -> str:
    return re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[number]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package of the page, and some that are wrong, installed as pip would."""
    (tmp_path / "thrift.py").write_text(code(0), encoding="utf-8")
    (tmp_path / "broken.py").write_text("import missing_module_of_nobody\n", encoding="utf-8")
    (tmp_path / "wrong.py").write_text(
        "from dataclasses import replace\n"
        "from distced.policies.distribution.policy import NAMED\n"
        "nothing = 3\n"
        "other = NAMED['min-load']\n"
        "dimension = replace(other, name='dimension', reuse='some')\n",
        encoding="utf-8",
    )
    entry = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0].splitlines()[1].replace('"', "")
    folder = tmp_path / "thrift-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: thrift\nVersion: 1.0\n", encoding="utf-8")
    more = ["broken = broken:policy", "nothing = wrong:nothing", "other = wrong:other", "dimension = wrong:dimension"]
    points = "\n".join(["[distced.policies]", entry, *more, ""])
    (folder / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    policies._installed.cache_clear()
    replicas_of.cache_clear()
    yield tmp_path
    policies._installed.cache_clear()
    for name in ("thrift", "broken", "wrong"):
        sys.modules.pop(name, None)


def test_documented_tables_match_policies() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| ([\w-]+) \| ([\w-]+) \| (\w+) \|", PAGE, re.MULTILINE)
    assert {name: tuple(row) for name, *row in rows} == {
        name: (each.decomposition, each.reuse, each.locality) for name, each in NAMED.items()
    }
    design = PAGE.partition("## The design space")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| \w* ?\| `([\w-]+)` \|", design, re.MULTILINE)
    assert shown == [*get_args(Decomposition), *get_args(Reuse), *get_args(Locality)]
    fields = re.findall(r"`(\w+)`", PAGE.partition("| of a `Candidate` | |")[2].partition("\n## ")[0])
    assert all(hasattr(Candidate, name) for name in fields)
    assert len(fields) >= 16


def test_documented_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(code(1), names)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(names["placement"].placed)
    assert printed[0].startswith("[A] ; [B] ; [C] node-")


@pytest.mark.usefixtures("package")
def test_documented_policy_is_known_where_installed() -> None:
    assert "cheap-but-soon" in installed()
    policy = parse_policy("cheap-but-soon")
    assert policy.text == "cheap-but-soon"
    assert parse_policy(policy.text) is policy
    found = place("[A] ; [C]", policy, situation_of(LINE), EAST).root.suggestion
    every = (found.chosen, *found.alternatives)
    assert found.chosen.delay - 100_000_000 <= min(max(each.delay - 100_000_000, 0) for each in every) + 1
    assert found.reason.startswith("cheap-but-soon: ")


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "broken",
            "a policy that cannot be loaded: broken:policy, .*broken of distced.policies.*missing_module_of_nobody",
        ),
        ("nothing", "not a policy: 3 .*decomposition.*nothing of distced.policies"),
        ("other", r"a policy of another name: min-load \(allowed: other\)"),
        ("dimension", "no value of the dimension reuse: some"),
        ("cheap-but-son", "did you mean cheap-but-soon"),
    ],
)
def test_invalid_installed_policy_is_error_on_use(name: str, problem: str) -> None:
    with pytest.raises(DistcedError, match=problem):
        parse_policy(name)
    # The others are none the worse for it.
    assert parse_policy("cheap-but-soon").name == "cheap-but-soon"
    assert parse_policy("min-load") is NAMED["min-load"]
    assert replicas_of(name) == 1


def test_policy_cannot_name_module() -> None:
    with pytest.raises(DistcedError, match="no distribution policy of this name"):
        parse_policy("os:system")


def test_policy_text_has_replicas() -> None:
    policy = parse_policy("none at-least-2 none 3")
    assert (policy.replicas, policy.text) == (3, "none at-least-2 none 3")
    assert parse_policy(policy.text) == policy
    assert parse_policy("none at-least-2 none 2").text == "none at-least-2 none"
    assert replicas_of("max-reliability") == 2
    assert replicas_of("") == 1
    with pytest.raises(DistcedError, match="replicas: many"):
        parse_policy("none none none many")
    with pytest.raises(DistcedError, match="replicas: 0"):
        parse_policy("none none none 0")
