"""Access of participants to servers: files in URLs, configuration files, and servers that are given nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from distced.middleware.bus.access import login, read_configuration, tls_context
from distced.middleware.bus.bus import Bus
from distced.middleware.bus.logger import Logger
from distced.middleware.bus.pool import Connections
from distced.middleware.client.client import Client
from distced.middleware.model.clock import ManualClock
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.server_address import parse_address, server_name


@pytest.mark.parametrize(
    "url",
    [
        "mqtt://h:1",
        "mqtts://ada:l%40ve@h:1?ca=/a/b%20c.pem&cert=/x.pem&key=/y.pem",
        "mqtts://[::1]:5?config=/etc/distced/ada.toml",
        "mqtt://ada@h:1?password-file=/p%3Fq",
    ],
)
def test_address_is_written_as_it_was_read(url: str) -> None:
    assert parse_address(url).url == url


def test_name_of_a_server_has_neither_login_nor_files() -> None:
    assert server_name("mqtts://ada:secret@h?ca=/a.pem") == "mqtts://h:8883"
    assert server_name(parse_address("mqtt://h")) == "mqtt://h:1883"


@pytest.mark.parametrize(
    "query", ["q=1", "ca=/a&ca=/b", "password=x", "ca=/a&config=/b&key=/c&cert=/d&password-file=/e&x=1"]
)
def test_parameter_that_is_no_file_is_an_error(query: str) -> None:
    with pytest.raises(BusError, match="URL") as caught:
        parse_address(f"mqtt://ada:secret@h?{query}")
    assert "secret" not in str(caught.value)


def test_password_is_read_again_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "password"
    address = parse_address(f"mqtt://ada@h?password-file={file}")
    file.write_text("one\n")
    assert (login(address).user, login(address).password) == ("ada", "one")
    file.write_text("two\r\nof no concern")
    assert login(address).password == "two"


def test_configuration_is_relative_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("l@ve")
    file = tmp_path / "ada.toml"
    file.write_text('server = "mqtt://h"\nuser = "ada"\npassword_file = "secret"\n')
    found = login(parse_address(f"mqtt://h?config={file}"))
    assert (found.user, found.password) == ("ada", "l@ve")
    # What is named beside the configuration counts.
    other = tmp_path / "other"
    other.write_text("0ther")
    assert login(parse_address(f"mqtt://bob@h?config={file}&password-file={other}")).password == "0ther"
    assert login(parse_address(f"mqtt://bob@h?config={file}")).user == "bob"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("servr = 'mqtt://h'", "not a configuration: .*servr.*allowed: name, server"),
        ("server = 5", "not a configuration: .*server"),
        ("server = 'http://h'", "not the URL of an MQTT server"),
        ("servers = ['mqtt://']", "not the URL of an MQTT server"),
        ("server = ", "not TOML"),
    ],
)
def test_wrong_configuration_is_an_error_that_names_it(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "ada.toml"
    file.write_text(text)
    with pytest.raises(BusError, match=problem):
        read_configuration(file)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("ca=missing.pem", "certificate of an authority that cannot be read: .*missing.pem"),
        ("ca=text.pem", "not a certificate of an authority: /.*text.pem"),
        ("cert=missing.pem", "certificate that cannot be read: .*missing.pem"),
        ("cert=text.pem", "not a certificate: /.*text.pem"),
        ("key=text.pem", "key without its certificate"),
        ("password-file=missing", "password file that cannot be read: /.*missing"),
        ("password-file=empty", "password file without a password: .*empty"),
        ("config=missing.toml", "cannot read the configuration: /.*missing.toml"),
    ],
)
def test_wrong_file_is_an_error_before_a_connection(
    query: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.pem").write_text("text")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(BusError, match=problem):
        Bus(f"mqtts://h?{query}")


def test_certificates_need_encryption(tmp_path: Path) -> None:
    with pytest.raises(BusError, match="without encryption: mqtt://h:1883; write mqtts://"):
        tls_context(parse_address("mqtt://h?ca=/a.pem"))
    assert tls_context(parse_address("mqtt://h")) is None


def test_only_servers_of_the_configuration_are_given_the_login(tmp_path: Path) -> None:
    file = tmp_path / "ada.toml"
    file.write_text("user = 'ada'\nservers = ['mqtts://site.example', 'mqtt://plain.example']\n")
    connections = Connections(f"mqtts://directory.example?config={file}", client_id="c", clock=ManualClock())
    assert connections.with_login("mqtts://site.example") == f"mqtts://site.example:8883?config={file}"
    assert connections.with_login("mqtts://attacker.example") == "mqtts://attacker.example:8883"
    assert connections.with_login("mqtts://site.example:999") == "mqtts://site.example:999"
    # What is sent over an encrypted connection is not to be read off another.
    assert connections.with_login("mqtt://plain.example") == "mqtt://plain.example:1883"


def test_files_are_read_again_as_they_change_and_only_then(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="the extra init is not installed")
    from distced.brokers.deployment.certificates import new_authority

    file = tmp_path / "ca.pem"
    file.write_bytes(new_authority("one", datetime.now(UTC)).certificate)
    address = parse_address(f"mqtts://h?ca={file}")
    first = tls_context(address)
    assert tls_context(address) is first
    file.write_bytes(new_authority("another", datetime.now(UTC)).certificate)
    second = tls_context(address)
    assert second is not None and second is not first and tls_context(address) is second
    assert second.get_ca_certs()[0]["subject"] != first.get_ca_certs()[0]["subject"]  # type: ignore[union-attr,index]


def test_configuration_that_is_being_replaced_counts_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "ada.toml"
    file.write_text("user = 'ada'\nservers = ['mqtts://site.example']\n")
    connections = Connections(f"mqtts://directory.example?config={file}", client_id="c", clock=ManualClock())
    expected = f"mqtts://site.example:8883?config={file}"
    assert connections.with_login("mqtts://site.example") == expected
    file.unlink()
    assert connections.with_login("mqtts://site.example") == expected
    file.write_text("user = ")
    with capture_logs() as logged:
        assert connections.with_login("mqtts://site.example") == expected
        assert connections.with_login("mqtts://site.example") == expected
    assert [each["event"] for each in logged] == ["configuration unusable"] and str(file) in logged[0]["reason"]
    file.write_text("user = 'ada'\n")
    assert connections.with_login("mqtts://site.example") == "mqtts://site.example:8883"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mqtt://ada:secret@h:1", "mqtt://…@h:1"),
        ("no connection to mqtts://ada@h and mqtt://b:c@d", "no connection to mqtts://…@h and mqtt://…@d"),
        ("mqtt://h:1?ca=/a@b", "mqtt://h:1?ca=/a@b"),
        ("ada@example", "ada@example"),
        ("MQTTS://ada:secret@h:1", "MQTTS://…@h:1"),
        ("mqtt://a:b@secret@h:1", "mqtt://…@h:1"),
        ("at mqtt://ada:se'secret@h:1, twice", "at mqtt://…@h:1, twice"),
        ("ada:secret@h:1", "…@h:1"),
    ],
)
def test_logs_have_no_logins(text: str, shown: str) -> None:
    logged: list[dict[str, object]] = []
    Logger(SimpleNamespace(info=lambda event, **fields: logged.append(fields))).info("server unusable", home=text, at=1)
    assert logged == [{"home": shown, "at": 1}]


def test_client_of_a_configuration_has_no_name_of_a_node(tmp_path: Path) -> None:
    file = tmp_path / "ada.toml"
    file.write_text("name = 'node:cellar'\n")
    with pytest.raises(DistcedError, match="not a name for a client: node:cellar"):
        Client(f"mqtt://127.0.0.1:1?config={file}")
