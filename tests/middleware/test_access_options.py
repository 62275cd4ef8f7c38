"""Options of verbs for the access to a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from distced.middleware.cli.options import DEFAULT, Duration, HomeOption, ServerOption, duration_option, verb
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.timestamps import HOUR, MINUTE


@dataclass(frozen=True)
class Options:
    server: ServerOption = DEFAULT
    home: HomeOption = None


@dataclass(frozen=True)
class Starts:
    server: ServerOption = "auto"


def given(*arguments: str, environment: dict[str, str] | None = None) -> Options:
    """Options of a verb that is called with arguments."""
    found: list[Options] = []

    @verb
    def show(options: Options) -> int:
        found.append(options)
        return 0

    app = typer.Typer(rich_markup_mode=None)
    app.command()(show)
    result = CliRunner().invoke(app, arguments, env=environment or {}, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return found[0]


def test_files_go_along_in_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = given("--server", "mqtts://ada@h", "--ca", "ca.pem", "--password-file", "/secret")
    assert found.server == f"mqtts://ada@h:8883?ca={tmp_path}/ca.pem&password-file=/secret"
    assert given() == Options()


def test_configuration_names_servers_where_no_option_does(tmp_path: Path) -> None:
    file = tmp_path / "ada.toml"
    file.write_text('server = "mqtts://h"\nhome = "mqtts://site"\n')
    assert given("--config", str(file)) == Options(f"mqtts://h:8883?config={file}", "mqtts://site")
    assert given(environment={"DISTCED_CONFIG": str(file)}).server == f"mqtts://h:8883?config={file}"
    other = given("--config", str(file), "--server", "mqtts://other", "--home", "mqtts://there")
    assert other == Options(f"mqtts://other:8883?config={file}", "mqtts://there")


def test_what_is_given_counts_more_than_the_configuration(tmp_path: Path) -> None:
    file, other = tmp_path / "ada.toml", tmp_path / "bob.toml"
    file.write_text('server = "mqtts://h"\n')
    other.write_text('server = "mqtts://b"\n')
    # The default, written out.
    assert given("--config", str(file), "--server", DEFAULT).server == f"{DEFAULT}?config={file}"
    environment = {"DISTCED_CONFIG": str(file)}
    named = f"mqtts://x:8883?config={other}"
    assert given("--server", named, environment=environment).server == named
    both = given("--server", f"mqtts://x?config={other}", "--config", str(file))
    assert both.server == f"mqtts://x:8883?config={file}"
    assert given(environment=environment | {"DISTCED_SERVER": "mqtt://e"}).server == f"mqtt://e:1883?config={file}"


@dataclass(frozen=True)
class Limited:
    server: ServerOption = DEFAULT
    max_instances: int = 1_000
    max_ahead: Annotated[int, duration_option(help="Farthest event.")] = Duration("1h")


def limited(*arguments: str) -> Limited:
    found: list[Limited] = []

    @verb
    def show(options: Limited) -> int:
        found.append(options)
        return 0

    app = typer.Typer(rich_markup_mode=None)
    app.command()(show)
    result = CliRunner().invoke(app, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return found[0]


def test_limits_are_those_of_the_configuration_where_no_option_is_given(tmp_path: Path) -> None:
    file = tmp_path / "cellar.toml"
    file.write_text('server = "mqtt://h"\n[limits]\nmax_instances = 7\nmax_ahead = "2min"\n')
    found = limited("--config", str(file))
    assert (found.max_instances, found.max_ahead) == (7, 2 * MINUTE)
    found = limited("--config", str(file), "--max-instances", "1000", "--max-ahead", "1h")
    assert (found.max_instances, found.max_ahead) == (1_000, HOUR)
    # As one that stands in the URL.
    assert limited("--server", f"mqtt://h?config={file}").max_instances == 7
    # Verbs without such options take the rest of the file.
    assert given("--config", str(file)).server.startswith("mqtt://h:1883")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("max_instance = 7", "not a limit: max_instance .allowed: max_instances, max_ahead.*limits"),
        ("max_instances = 0", "not a limit: 0 .allowed: a number, from 1.*limits.max_instances"),
        ("max_instances = '7'", "not a limit: 7 .allowed: a number"),
        ("max_ahead = 7", "not a limit: 7 .allowed: a duration"),
        ("max_ahead = 'long'", "long"),
        ("max_instances = 1.5", "not a configuration"),
    ],
)
def test_wrong_limit_is_an_error_that_names_it(line: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "cellar.toml"
    file.write_text(f'server = "mqtt://h"\n[limits]\n{line}\n')
    with pytest.raises(DistcedError, match=problem):
        limited("--config", str(file))


def test_access_to_no_server_in_particular_is_an_error(tmp_path: Path) -> None:
    @verb
    def start(options: Starts) -> int:
        raise AssertionError(options)

    app = typer.Typer(rich_markup_mode=None)
    app.command()(start)
    result = CliRunner().invoke(app, ["--ca", "ca.pem"], standalone_mode=False)
    assert isinstance(result.exception, BusError)
    assert "not named: auto" in str(result.exception)
