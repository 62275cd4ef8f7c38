"""Silent sources: which of them are reported, the log, the load entry, and the table of nodes."""

from __future__ import annotations

from distced.brokers.core.effects import Note
from distced.brokers.inspect.nodes import nodes_report, nodes_text
from distced.brokers.node.silent_sources import MOST, SILENT, SilentSources
from distced.middleware.model.timestamps import SECOND
from tests.brokers.test_directory_report import drawn
from tests.brokers.test_node import prepared, subscribed


def test_silence_is_logged_whenever_it_has_doubled_and_once_at_its_end() -> None:
    sources, logged = SilentSources(), []
    for second in range(100):
        heard = 0 if second < 95 else second * SECOND
        for note in sources.look([("door", heard, 3)], second * SECOND):
            assert isinstance(note, Note)
            logged.append((note.event, note.fields.get("seconds"), note.fields.get("detectors")))
    assert logged == [
        *(("source silent", each, 3) for each in (10, 20, 40, 80)),
        ("source no longer waited for", None, None),
    ]
    assert sources.since == {}


def test_source_of_several_inputs_is_one_and_its_last_message_at_any_counts() -> None:
    sources = SilentSources()
    (note,) = sources.look([("door", 0, 2), ("door", SECOND, 5), ("window", 2 * SECOND, 1)], SECOND + SILENT)
    assert isinstance(note, Note)
    assert (note.fields["source"], note.fields["detectors"]) == ("door", 7)
    assert sources.longest() == {"door": SECOND}
    many = [(f"s{number}", number, 1) for number in range(2 * MOST)]
    sources.look(many, SECOND + SILENT)
    assert sources.longest() == {f"s{number}": number for number in range(MOST)}


def test_source_that_holds_detectors_back_is_shown_until_it_is_fenced_off() -> None:
    network, client = prepared()
    client.source("t", ["A"])
    subscribed(network, client, "q", "[A]")
    subscribed(network, client, "r", "[B]")
    for _ in range(15):
        client.heartbeat(network.now, "s")
        network.pass_time(SECOND)
    (node,) = network.nodes
    (heard,) = node.node.silent_sources.since.values()
    assert node.node.silent_sources.since == {"t": heard}
    (load,) = node.node.directory.loads.values()
    assert load.silent == {"t": heard}
    lines = drawn(nodes_text(nodes_report(node.node.directory), heard + 75 * SECOND), 120)
    assert lines[-1] == "detectors wait for the source t, silent for 1 min 15 s: distced fence t, if it is gone"

    network.publish("ced/a/fence/t", b"")
    client.clear("source", "t")
    for _ in range(5):
        client.heartbeat(network.now, "s")
        network.pass_time(SECOND)
    assert node.node.silent_sources.since == {}
    assert node.node.directory.loads["n1"].silent == {}
    assert [each.event for each in network.notes if "silent" in each.event or "no longer" in each.event] == [
        "source silent",
        "source no longer waited for",
    ]
