"""Stories: what befell a detector, a subscription, a source, with causes; and that every effect has one."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from distced.brokers.cli.story import check_found, merge, story_table
from distced.brokers.core.causes import MessageArrived, StoryAnswer, StoryLine, StoryRequest, TimePassed
from distced.brokers.core.effects import Effect, Note, Publish, Subscribe
from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.node.story import CAUSES, LINES, LONGEST_CAUSE, SUBJECTS, Stories
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.topics import Area, administration_topic, area_filter
from tests.support.virtual_nodes import Network, VirtualClient


def scene(nodes: int = 1) -> tuple[Network, VirtualClient]:
    network = Network()
    for number in range(nodes):
        network.node(f"n{number}")
    app = network.client("app")
    app.register(event_type("A", {"value": "number"}), event_type("B", {"value": "number"}))
    app.source("s", ("A", "B"))
    network.run()
    app.subscribe("q", "[A] ; [B]")
    network.run()
    return network, app


def texts(lines: list[StoryLine]) -> list[str]:
    return [f"{each.stimulus} | {each.happened} | {each.effect}" for each in lines]


def test_detector_has_a_story_with_causes() -> None:
    network, app = scene()
    (node,) = network.nodes
    detector = app.detector("q")
    story = node.node.story(detector)
    assert "detector created" in story[0].happened and "offered to q" in story[0].effect
    assert story[0].stimulus == "d/subscription/q"
    assert story[1].stimulus == f"a/ready/{app.name}" and story[1].happened.endswith("running (was waiting for parts)")
    assert "active to q" in story[1].effect
    assert [each.cause for each in story] == sorted({each.cause for each in story})
    app.clear("subscription", "q")
    network.run()
    assert "detector destroyed" in node.node.story(detector)[-1].happened
    assert node.node.story(detector[:6]) == node.node.story(detector)


def test_subscription_has_a_story_on_every_node_involved() -> None:
    network, app = scene(nodes=3)
    known = {each.name: texts(each.node.story("q")) for each in network.nodes}
    host = network.hosts(app.detector("q"))[0]
    assert any("offered to app" in line for line in known[host])
    assert any("active to app" in line for line in known[host])
    assert any("coordinated here" in line for lines in known.values() for line in lines)


def test_source_has_a_story() -> None:
    network, app = scene()
    (node,) = network.nodes
    app.publish(Event("A", 5, 5, "s", 1, {"value": 1}), watermark=9)
    app.publish(Event("A", 6, 6, "s", 2, {"value": 1}))
    app.publish(Event("A", 7, 7, "s", 3, {"value": "text"}))
    network.run()
    app.clear("source", "s")
    network.run()
    lines = texts(node.node.story("s"))
    detector = app.detector("q")
    assert "d/source/s |  | acknowledged" in lines
    assert f"e/A/s | late for {detector} | " in lines
    assert "e/A/s | events that are none of type A | " in lines
    assert f"d/source/s | no longer read by {detector} | " in lines


def test_move_is_in_the_stories_of_both_nodes() -> None:
    network, app = scene(nodes=2)
    detector = app.detector("q")
    host = decode(network.retained[network.detector_topic(detector)], DetectorEntry, where="").node
    (other,) = {"n0", "n1"} - {host}
    network.publish(administration_topic("move", detector), encode(MoveRequest(other)))
    network.run()
    assert network.hosts(detector) == [other]
    story = {each.name: texts(each.node.story(detector)) for each in network.nodes}
    assert any("leaving (was running)" in line for line in story[host])
    assert any("detector moved" in line for line in story[host])
    assert any("arriving (was planned)" in line for line in story[other])
    assert any("running (was arriving)" in line for line in story[other])


def test_every_effect_has_the_cause_of_its_stimulus() -> None:
    network, app = scene()
    (node,) = network.nodes
    before = node.node.stories.number
    effects = node.node.receive(*_frame(app, network), network.now)
    assert effects and {each.cause for each in effects} == {before + 1}
    effects = node.node.tick(network.now + 60 * SECOND)
    assert effects and {each.cause for each in effects} == {before + 2}


def _frame(app: VirtualClient, network: Network) -> tuple[str, bytes]:
    app.publish(Event("A", 5, 5, "s", 1, {"value": 1}), watermark=9)
    sent = app.out.pop()
    assert isinstance(sent, Publish)
    return sent.topic, sent.payload


def test_effects_are_equal_whatever_their_cause() -> None:
    assert Publish("t", b"", cause=1) == Publish("t", b"", cause=2)
    assert Publish("t", b"") != Publish("t", b"x")
    assert Subscribe("t") != Note("info", "t")


def test_story_is_answered_over_the_topics_of_administration() -> None:
    network, _ = scene(nodes=2)
    asker = network.client("asker")
    heard: dict[str, StoryAnswer] = {}

    def receive(topic: str, payload: bytes) -> None:
        if payload and "/story-of/" in topic:
            answer = decode(payload, StoryAnswer, where=topic)
            heard[answer.node] = answer

    asker.receive = receive  # type: ignore[method-assign]
    asker.do([Subscribe(area_filter(Area.ADMINISTRATION, "story-of", "asker"))])
    network.run()
    network.publish(administration_topic("story", "asker"), encode(StoryRequest("q")))
    network.run()
    assert heard.keys() == {"n0", "n1"}
    logged = {name: [*answer.stories.get("subscription q", ())] for name, answer in heard.items()}
    assert logged == {each.name: each.node.story("q") for each in network.nodes}
    network.publish(administration_topic("story", "asker"), encode(StoryRequest("nothing")))
    network.run()
    assert all(answer.stories == {} for answer in heard.values())


def test_lines_that_repeat_are_counted_and_rings_are_bounded() -> None:
    stories = Stories("n", "ced")

    def befall(subject: str, what: str) -> list[Effect]:
        stories.begin(MessageArrived("ced/a/x"), 1)
        stories.happened("source", subject, what)
        return stories.end([])

    for _ in range(3):
        befall("s", "late")
    (line,) = stories.of("s")["source s"]
    assert (line.times, line.cause, line.stimulus) == (3, 3, "a/x")
    for number in range(2 * LINES):
        befall("s", f"late {number}")
    assert len(stories.of("s")["source s"]) == LINES
    for number in range(SUBJECTS):
        befall(f"s{number}", "late")
    assert stories.of("s") == {}
    assert stories.of("s1") != {}


def test_effect_behind_a_barrier_names_the_stimulus_that_waited() -> None:
    stories = Stories("n", "ced")
    stories.begin(MessageArrived("ced/a/listening"), 1)
    then = stories.continued(lambda now: [Note("info", "detector moved", {"detector": "c1"})])
    stories.end([])
    stories.begin(MessageArrived("ced/a/known/n", "mqtt://two"), 2)
    (effect,) = stories.end(then(2))
    assert effect.cause == 2
    (line,) = stories.of("c")["detector c1"]
    assert (line.stimulus, line.happened) == ("barrier of #1", "detector moved")


def test_stories_of_several_nodes_are_merged_by_time() -> None:
    first = StoryLine(2, "n1", 7, "a/ready/q", "client listens", "")
    second = StoryLine(3, "n0", 5, "timer", "", "offered to app", 4)
    merged = merge([StoryAnswer("n0", {"subscription q": (second,)}), StoryAnswer("n1", {"subscription q": (first,)})])
    assert merged == {"subscription q": [first, second]}
    console = Console(width=200, file=StringIO())
    console.print(story_table("subscription q", merged["subscription q"]))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.index("client listens") < text.index("offered to app")
    assert "#5 timer (4 times)" in text


def test_story_of_an_unknown_id_lists_what_is_there() -> None:
    with pytest.raises(DistcedError) as error:
        check_found("x", {}, {"detectors": ["c1", "c2"], "subscriptions": [], "sources": ["s"]})
    assert error.value.allowed == "detectors: c1, c2; sources: s"
    lines: list[StoryLine] = []
    with pytest.raises(DistcedError, match="several detectors"):
        check_found("c", {"detector c1": lines, "detector c2": lines}, {})


def test_log_events_of_moves_refusals_and_takeovers_have_a_cause() -> None:
    network = Network()
    nodes = [network.node(f"n{number}", limits=SubscriptionLimits(of_client=2)) for number in range(3)]
    app = network.client("app")
    app.register(event_type("A", {"value": "number"}), event_type("B", {"value": "number"}))
    app.source("s", ("A", "B"))
    network.run()
    app.subscribe("q", "[A] ; [B]", distribution="max-reliability")
    network.pass_time(10 * SECOND)
    detector = app.detector("q")
    host = decode(network.retained[network.detector_topic(detector)], DetectorEntry, where="").node
    network.publish(administration_topic("move", detector), encode(MoveRequest("nowhere")))
    for number in range(2):
        app.subscribe(f"more{number}", f"[B where value > {number}]")
    network.pass_time(3 * SECOND)
    network.lose(next(each for each in network.nodes if each.name == host), for_good=True)
    network.pass_time(10 * SECOND)
    causes: dict[str, set[str]] = {}
    for note in network.notes:
        found = {each.node.stories.cause(note.cause) for each in nodes}
        causes.setdefault(note.event, set()).update(found)
    topics = {"move refused": f" a/move/{detector}", "subscriptions refused": " d/subscription/"}
    for event, topic in topics.items():
        assert any(topic in each and each.startswith("#") for each in causes[event]), causes[event]
    for event in ("detector created", "replica added", "replica promoted"):
        assert any(each.startswith("#") for each in causes[event]), (event, causes)
    # Of a client.
    assert {note.event for note in network.notes if not note.cause} == {"subscription ended"}


def test_causes_of_log_events_are_short_and_bounded() -> None:
    stories = Stories("n", "ced")
    for number in range(CAUSES + 5):
        stories.begin(MessageArrived(f"ced/a/move/{'x' * 1_000}"), number)
        stories.end([Note("info", "move begun")])
    assert stories.cause(1) == "" and stories.cause(5) == ""
    assert stories.cause(CAUSES + 5).startswith(f"#{CAUSES + 5} a/move/xx")
    assert len(stories.cause(CAUSES + 5)) == LONGEST_CAUSE
    stories.begin(TimePassed(), 0)
    stories.end([Subscribe("ced/a/x")])
    assert stories.cause(stories.number) == ""
