"""How servers are called, and with which password one connects to them; no connection is made here."""

from __future__ import annotations

import pytest

from distced.middleware.bus.pool import Connections, home_name
from distced.middleware.model.clock import ManualClock
from distced.middleware.model.errors import BusError
from distced.middleware.model.server_address import server_name

DIRECTORY = "mqtt://ada:secret@directory.example"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("mqtt://site.example", "mqtt://site.example:1883"),
        ("site.example:1884", "mqtt://site.example:1884"),
        ("mqtts://SITE.example", "mqtts://site.example:8883"),
        ("mqtt://ada:p%40ss@site.example/", "mqtt://site.example:1883"),
        ("mqtt://[::1]:7", "mqtt://[::1]:7"),
    ],
)
def test_server_has_one_name(url: str, name: str) -> None:
    assert server_name(url) == name
    assert server_name(name) == name


@pytest.mark.parametrize(
    ("url", "home"),
    [
        ("", ""),
        ("directory.example", ""),
        ("mqtt://directory.example:1883", ""),
        ("mqtt://bob:other@directory.example", ""),
        ("mqtts://directory.example:1883", "mqtts://directory.example:1883"),
        ("mqtt://site.example", "mqtt://site.example:1883"),
    ],
)
def test_server_of_the_directory_has_no_name(url: str, home: str) -> None:
    assert home_name(url, DIRECTORY) == home


@pytest.mark.parametrize("url", ["mqtt://", "http://site.example", "mqtt://site.example/path", "mqtt://a:b"])
def test_text_that_is_no_server_is_an_error(url: str) -> None:
    with pytest.raises(BusError, match="not the URL of an MQTT server"):
        home_name(url, DIRECTORY)


@pytest.mark.parametrize(
    ("directory", "own", "home", "wanted"),
    [
        # What entries of the directory name is given nothing.
        (DIRECTORY, "", "mqtt://site.example:1", "mqtt://site.example:1"),
        (DIRECTORY, "mqtt://own.example", "mqtts://site.example:1", "mqtts://site.example:1"),
        # Nor does it bring a user, a password or files of this machine.
        (DIRECTORY, "", "mqtt://eve:e@site.example:1?password-file=/etc/passwd", "mqtt://site.example:1"),
        (DIRECTORY, "", "mqtt://eve@site.example:1?config=/etc/distced/ada.toml", "mqtt://site.example:1"),
        # The own site has what it was given, or what the directory has.
        (DIRECTORY, "mqtt://site.example:1", "mqtt://site.example:1", "mqtt://ada:secret@site.example:1"),
        (DIRECTORY, "mqtts://site.example:1", "mqtts://site.example:1", "mqtts://ada:secret@site.example:1"),
        ("mqtt://a%2Fb:%40@d", "mqtt://s:1", "mqtt://s:1", "mqtt://a%2Fb:%40@s:1"),
        ("mqtt://d", "mqtt://s:1", "mqtt://s:1", "mqtt://s:1"),
        (DIRECTORY, "mqtt://bob:b@site.example:1", "mqtt://site.example:1", "mqtt://bob:b@site.example:1"),
        (DIRECTORY, "mqtt://bob:b@site.example:1", "mqtt://other.example:1", "mqtt://other.example:1"),
        # But not over a connection that anybody can read.
        ("mqtts://ada:secret@d", "mqtt://site.example:1", "mqtt://site.example:1", "mqtt://site.example:1"),
    ],
)
def test_user_at_another_server_is_the_one_known_for_it(directory: str, own: str, home: str, wanted: str) -> None:
    connections = Connections(directory, own, client_id="c", clock=ManualClock())
    assert connections.with_login(home) == wanted


def test_connection_asked_for_after_the_end_is_refused_with_its_home() -> None:
    connections = Connections("mqtt://127.0.0.1:9", client_id="c", clock=ManualClock())
    connections.stop(0.1)
    with pytest.raises(BusError, match=r"mqtt://site.example:1"):
        connections.to("mqtt://site.example:1")
    assert connections.to("") is connections.main
