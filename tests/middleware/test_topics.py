"""Topics: what is built reads back, levels hold any characters, and foreign topics are refused with a reason."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from distced.middleware.wire.topics import (
    Area,
    Topic,
    TopicError,
    administration_topic,
    area_filter,
    check_root,
    client_of,
    composite_topic,
    dead_letter_topic,
    decode_level,
    directory_filter,
    directory_topic,
    encode_level,
    event_filter,
    event_topic,
    parse_topic,
    pointer_topic,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)

BUILT = [
    (event_topic("Motion", "room5"), "ced/e/Motion/room5"),
    (event_topic("Motion", "gateway/a+b#c$d%e"), "ced/e/Motion/gateway%2Fa%2Bb%23c%24d%25e"),
    (event_topic("Motion", "Büro 5"), "ced/e/Motion/Büro 5"),
    (event_topic("Motion", "a\x00b\n"), "ced/e/Motion/a%00b%0A"),
    (event_topic("Motion", "r", root="site1/ced"), "site1/ced/e/Motion/r"),
    (composite_topic("3f2a"), "ced/c/3f2a"),
    (directory_topic("nodes", "n/1"), "ced/d/nodes/n%2F1"),
    (administration_topic("n1", "policy"), "ced/a/n1/policy"),
    (pointer_topic(), "ced/a/directory"),
    (dead_letter_topic("n1"), "ced/x/n1"),
    (event_filter(), "ced/e/+/+"),
    (event_filter("Motion"), "ced/e/Motion/+"),
    (event_filter(source="a+"), "ced/e/+/a%2B"),
    (area_filter(Area.DIRECTORY), "ced/d/#"),
    (area_filter(Area.ADMINISTRATION, None, "policy"), "ced/a/+/policy/#"),
]


@pytest.mark.parametrize(("made", "expected"), BUILT, ids=[expected for _, expected in BUILT])
def test_topics_are_built_as_the_design_says(made: str, expected: str) -> None:
    assert made == expected


@settings(deadline=None)
@given(NAMES, NAMES)
def test_event_topics_read_back_and_match_their_filters(type_: str, source: str) -> None:
    topic = event_topic(type_, source)
    assert parse_topic(topic) == Topic(Area.EVENTS, (type_, source))
    for topic_filter in (event_filter(), event_filter(type_), event_filter(source=source), event_filter(type_, source)):
        assert topic_matches_sub(topic_filter, topic)
    assert not topic_matches_sub(event_filter(type_ + "x"), topic)


@settings(deadline=None)
@given(
    st.one_of(NAMES, st.sampled_from(["detector", "subscription"])),
    st.one_of(NAMES, st.lists(NAMES, min_size=2, max_size=3).map(".".join)),
    st.one_of(st.just(""), NAMES),
    st.sampled_from(["ced", "site1/ced"]),
)
def test_directory_topics_read_back_under_any_root(kind: str, name: str, publishes: str, root: str) -> None:
    topic = directory_topic(kind, name, publishes=publishes, root=root)
    assert parse_topic(topic, root=root) == Topic(Area.DIRECTORY, (kind, name))
    if kind == "subscription" and "." in name[1:-1].strip("."):
        client = name.rpartition(".")[0]
        assert topic_matches_sub(directory_filter(kind, client, root=root), topic)
        assert not topic_matches_sub(directory_filter(kind, client + "x", root=root), topic)
    if kind == "detector" and publishes:
        assert topic_matches_sub(directory_filter(kind, publishes, root=root), topic)
        assert not topic_matches_sub(directory_filter(kind, publishes + "x", root=root), topic)


@pytest.mark.parametrize(
    ("name", "client"),
    [("c.1", "c"), ("a.b.1", "a.b"), ("..1", "."), ("q", ""), ("q.", ""), (".q", ""), ("r p two%2Eb", "")],
)
def test_client_of_a_subscription_is_a_level_of_its_topic(name: str, client: str) -> None:
    assert client_of(name) == client
    assert directory_topic("subscription", name).count("/") == (4 if client else 3)


@settings(deadline=None)
@given(NAMES)
def test_level_holds_any_text(text: str) -> None:
    level = encode_level(text)
    assert not set(level) & set("/+#$")
    assert level.isprintable()
    assert decode_level(level) == text


@settings(deadline=None)
@given(NAMES, NAMES)
def test_different_texts_are_different_levels(one: str, other: str) -> None:
    assert (encode_level(one) == encode_level(other)) == (one == other)


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("other/e/A/s", "begin with ced/"),
        ("cedar/e/A/s", "begin with ced/"),
        ("ced/z/A", "ced/e/..."),
        ("ced/e/A", "<type>/<source>"),
        ("ced/e/A/s/t", "<type>/<source>"),
        ("ced/c", "<canonical id>"),
        ("ced/c/a/b", "<canonical id>"),
        ("ced/d", "one level or more"),
        ("ced/e//s", "empty level"),
        ("ced/e/A/%FF", "no UTF-8"),
        ("ced/d/subscription/a/b.c", "one that ends in a.b/c"),
        ("ced/d/subscription/a%2F/b.c", "one that ends in a%2F.b/c"),
        ("ced/d/subscription/a.b", "one that ends in a/b"),
    ],
)
def test_foreign_topics_are_refused(topic: str, said: str) -> None:
    with pytest.raises(TopicError) as caught:
        parse_topic(topic)
    assert said in str(caught.value)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_parser_of_topics_raises_topic_errors_only(topic: str) -> None:
    for text in (topic, f"ced/{topic}", f"ced/e/{topic}"):
        try:
            parse_topic(text)
        except TopicError as error:
            assert error.allowed


@pytest.mark.parametrize("root", ["", "/ced", "ced/", "a//b", "$SYS", "a/+", "a/#", "a\n"])
def test_malformed_roots_are_errors(root: str) -> None:
    with pytest.raises(TopicError):
        check_root(root)


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 70_000])
def test_names_that_no_topic_can_hold_are_errors(name: str) -> None:
    with pytest.raises(TopicError):
        event_topic("Motion", name)
