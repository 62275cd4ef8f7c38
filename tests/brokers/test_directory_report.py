"""What `distced nodes` and `distced detectors` make of a directory: reports, text, errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import StringIO
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.detectors import Related, detectors_report, detectors_text
from distced.brokers.inspect.lookup import SHORTEST, check_node, find_detector, short_ids
from distced.brokers.inspect.nodes import lasting, nodes_report, nodes_text
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from distced.middleware.wire.directory_entries import (
    DetectorEntry,
    ExclusionEntry,
    LoadEntry,
    Measured,
    NodeEntry,
    RecorderEntry,
    SourceEntry,
    SubscriptionEntry,
    TopologyEntry,
)

UP = 1_795_248_000 * SECOND
"""2026-11-21T08:00:00Z"""


def directory(
    nodes: dict[str, NodeEntry] | Iterable[str] = (),
    detectors: dict[str, DetectorEntry] | None = None,
    sources: dict[str, tuple[str, ...]] | None = None,
) -> Directory:
    """A directory in which readers have subscribed to their parts as nodes do."""
    made = Directory()
    for name, node in (nodes if isinstance(nodes, dict) else {name: NodeEntry(UP) for name in nodes}).items():
        made.put("node", name, node)
    for reader, entry in (detectors or {}).items():
        made.put("detector", reader, entry)
        for part in entry.parts:
            wanted = SubscriptionEntry(f"node:{entry.node}", "[A]", derivations=True)
            made.put("subscription", f"{reader} {part} {entry.node}", wanted)
    for name, types in (sources or {}).items():
        made.put("source", name, SourceEntry(types, 0))
    return made


def detector(node: str, pattern: str, serves: int = 1, **fields: Any) -> DetectorEntry:
    return DetectorEntry(**{
        "node": node,
        "pattern": pattern,
        "policy": "guaranteed",
        "reads": ("A",),
        "subscriptions": serves,
        **fields,
    })  # fmt: skip


def drawn(parts: Iterable[RenderableType], width: int = 100) -> list[str]:
    console = Console(file=StringIO(), width=width, color_system=None)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def as_json(report: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(report))


# Nodes.

COUNTS = {"frames": 9, "events": 1200, "composite events": 3, "late": 2, "dead letters, late": 2}

NODES = [
    (directory(), ["no broker nodes: start one with `distced broker`"]),
    (
        directory(
            {
                "roof": NodeEntry(UP + 1),
                "cellar": NodeEntry(UP - HOUR, 2, {**COUNTS, "dead letters, mistyped": 10}),
            },
            {"c2": detector("cellar", "[B]"), "c1": detector("cellar", "[A]")},
        ),
        [
            "node     up since              for         detectors  events  composite events  late  dead letters",
            "cellar   2026-11-21 07:00:00Z  1 h 1 min           2   1,200                 3     2  2 late, 10 mistyped",
            "roof     2026-11-21 08:00:00Z  1 min 29 s          0       0                 0     0  0",
            "2 nodes                                            2   1,200                 3     2  12",
        ],
    ),
    (
        directory(["n1"], {"c0123456789": detector("n7", "[A]")}),
        [
            "node    up since              for         detectors  events  composite events  late  dead letters",
            "n1      2026-11-21 08:00:00Z  1 min 30 s          0       0                 0     0  0",
            "1 node                                            0       0                 0     0  0",
            "",
            "left over from nodes that are gone: c01234 (n7)",
        ],
    ),
]


@pytest.mark.parametrize(("known", "expected"), NODES)
def test_nodes_are_shown_with_their_totals(known: Directory, expected: list[str]) -> None:
    assert drawn(nodes_text(nodes_report(known), UP + 90 * SECOND), 120) == expected


def test_nodes_fit_into_80_columns() -> None:
    known = directory({"cellar": NodeEntry(UP, 2, {**COUNTS, "dead letters, malformed": 1000})})
    assert drawn(nodes_text(nodes_report(known), UP + 90 * SECOND), 80) == [
        "                                                    composite        dead",
        "node    up since    for         detectors  events      events  late  letters",
        "cellar  2026-11-21  1 min 30 s          0   1,200           3     2  2 late,",
        "        08:00:00Z                                                    1,000",
        "                                                                     malformed",
        "1 node                                  0   1,200           3     2  1,002",
    ]


def test_report_on_nodes_holds_everything() -> None:
    counts = {**COUNTS, "dead letters, malformed": 0}
    known = directory({"n1": NodeEntry(UP, 3, counts)}, {"c2": detector("n1", "[B]"), "c1": detector("n1", "[A]")})
    assert as_json(nodes_report(known)) == {
        "nodes": [
            {
                "node": "n1",
                "since": UP,
                "detectors": ["c1", "c2"],
                "hosted": 3,
                "events": 1200,
                "composite_events": 3,
                "late": 2,
                "dead_letters": {"late": 2, "malformed": 0},
                "counts": counts,
                "at": {"home": "", "site": None},
                "replicas": [],
                "load": None,
                "capacity": None,
                "latencies": {},
                "isolates": False,
                "reserved": None,
                "draining": False,
                "behind": 0,
                "waiting": 0,
                "silent": {},
            }
        ],
        "totals": {
            "nodes": 1,
            "detectors": 2,
            "events": 1200,
            "composite_events": 3,
            "late": 2,
            "dead_letters": 2,
            "replicas": 0,
            "load": 0.0,
        },
        "left_over": [],
        "recorders": [],
    }


def test_node_that_is_behind_says_how_far() -> None:
    known = directory({"n1": NodeEntry(UP), "n2": NodeEntry(UP)})
    known.loads["n1"] = LoadEntry(behind=75 * SECOND, waiting=1500)
    lines = drawn(nodes_text(nodes_report(known), UP + 90 * SECOND), 140)
    assert [" ".join(each.split()) for each in lines] == [
        "node up since for detectors load behind waiting events composite events late dead letters",
        "n1 2026-11-21 08:00:00Z 1 min 30 s 0 0/s 1 min 15 s 1,500 0 0 0 0",
        "n2 2026-11-21 08:00:00Z 1 min 30 s 0 0 0 0 0 0",
        "2 nodes 0 0/s 1,500 0 0 0 0",
    ]


def test_recorders_are_shown_below_nodes() -> None:
    known = directory({})
    known.recorders |= {
        "office": RecorderEntry(UP, None, "mqtt://10.0.1.10"),
        "attic": RecorderEntry(UP + 30 * SECOND, ("Login", "Motion")),
    }
    assert drawn(nodes_text(nodes_report(known), UP + 90 * SECOND), 120)[-2:] == [
        "recorder attic, for 1 min, of Login, Motion",
        "recorder office at 10.0.1.10:1883, for 1 min 30 s, of all types",
    ]
    assert as_json(nodes_report(known))["recorders"][0] == {
        "recorder": "attic",
        "since": UP + 30 * SECOND,
        "types": ["Login", "Motion"],
        "at": {"home": "", "site": None},
    }


# Several sites.

TOPOLOGY = """\
[sites.floor-1]
url = "mqtt://10.0.1.10"
[sites.floor-2]
url = "mqtt://10.0.2.10"
[[links]]
between = ["floor-1", "floor-2"]
latency = "1ms"
"""
AWAY = "mqtt://10.0.2.10:1883"
DOES = Measured(
    load=61.75,
    rate=1.5,
    size=800.0,
    inputs={"hall": 300.0, "c1": 20.0},
    events=6.5,
    state=2048,
    delay=126_000_000,
    engine="columnar",
)
PLANNED = Measured(load=50.0, rate=1.0, size=700.0, inputs={"hall": 250.0}, events=5.0)


def several_sites(*, topology: str = TOPOLOGY) -> Directory:
    """A detector with a replica at another site, one without measurements, an isolated one."""
    known = directory(
        {
            "cellar": NodeEntry(UP, 1, capacity=100.0, isolates=True),
            "attic": NodeEntry(UP, 1, home=AWAY, capacity=1000.0),
            "cellar+c3": NodeEntry(UP, 1, reserved="c3000000"),
        },
        {
            "c1000000": detector(
                "cellar",
                "[A] ; [B]",
                2,
                distribution="max-reliability",
                replicas={"attic": AWAY, "roof": "mqtt://10.0.9.10:1883"},
                readers={"": 1, AWAY: 2},
                expected=PLANNED,
            ),
            "c2000000": detector("attic", "[C]", home=AWAY, distribution="min-load", expected=PLANNED),
            "c3000000": detector("cellar+c3", "[D]"),
        },
    )
    known.loads["cellar"] = LoadEntry(150.0, {"c1000000": DOES}, {"": 1_000_000, AWAY: 4_000_000})
    known.loads["attic"] = LoadEntry(61.75, {"c1000000": Measured(load=1.0)}, {AWAY: 500_000})
    if topology:
        known.topologies["overlay"] = TopologyEntry(topology)
    return known


def test_nodes_are_shown_with_site_and_load() -> None:
    lines = drawn(nodes_text(nodes_report(several_sites()), UP), 160)
    assert [re.split(" {2,}", line) for line in lines[:-1]] == [
        ["node", "site", "up since", "for", "only for", "detectors", "replicas", "load", "of its capacity", "events",
         "composite events", "late", "dead letters"],
        ["attic", "floor-2", "2026-11-21 08:00:00Z", "0 s", "1", "1", "61.8/s", "6.17 % of 1,000/s",
         "0", "0", "0", "0"],
        ["cellar", "floor-1", "2026-11-21 08:00:00Z", "0 s", "1", "0", "150/s", "150 % of 100/s", "0", "0", "0", "0"],
        ["cellar+c3", "floor-1", "2026-11-21 08:00:00Z", "0 s", "c30000", "1", "0", "0", "0", "0", "0"],
    ]  # fmt: skip
    assert lines[-1].split() == ["3", "nodes", "3", "1", "212/s", "0", "0", "0", "0"]


@pytest.mark.parametrize("topology", ["", "no topology ["])
def test_sites_are_shown_by_their_servers_without_a_topology(topology: str) -> None:
    lines = drawn(nodes_text(nodes_report(several_sites(topology=topology)), UP), 160)
    assert [line.split()[1] for line in lines[:-1]] == ["site", "10.0.2.10:1883", "directory", "directory"]


def test_report_on_nodes_of_several_sites_holds_everything() -> None:
    attic, cellar, own = as_json(nodes_report(several_sites()))["nodes"]
    assert (attic["at"], cellar["at"]) == ({"home": AWAY, "site": "floor-2"}, {"home": "", "site": "floor-1"})
    assert (attic["detectors"], attic["replicas"]) == (["c2000000"], ["c1000000"])
    assert (cellar["load"], cellar["capacity"], cellar["isolates"]) == (150.0, 100.0, True)
    assert cellar["latencies"] == {"": 1_000_000, AWAY: 4_000_000}
    assert own["reserved"] == {"id": "c3000000", "short": "c30000", "node": "cellar+c3"}
    assert (own["load"], own["capacity"]) == (None, None)


def test_detector_is_shown_with_home_listeners_and_measurements() -> None:
    lines = drawn(detectors_text(detectors_report(several_sites(), about="c1000000")), 200)
    assert lines == [
        "detector      c1000000",
        "pattern       [A] ; [B]",
        "node          cellar",
        "replicas      attic at floor-2, roof at 10.0.9.10:1883, which is gone",
        "home          floor-1",
        "policy        guaranteed",
        "distribution  max-reliability",
        "serves        2 subscriptions",
        "heard at      floor-1 (1), floor-2 (2)",
        "measured      load 61.8/s, finds 1.5/s, sends 800 B/s, reads 6.5 events/s in 320 B/s, delay 126 ms, "
        "state 2,048 bytes, columnar engine",
        "expected      load 50/s, finds 1/s, sends 700 B/s, reads 5 events/s in 250 B/s",
        "types         A, not published yet",
    ]
    # The word of its own node counts, and a replica's does not.
    lines = drawn(detectors_text(detectors_report(several_sites(), about="c2000000")), 200)
    assert "home          floor-2" in lines
    assert not any(line.startswith("measured") for line in lines)


def test_replicas_are_on_their_nodes_too() -> None:
    known = several_sites()
    report = detectors_report(known, node="attic")
    assert [each.id for each in report.detectors] == ["c1000000", "c2000000"]
    assert find_detector(known, "c1", node="attic") == "c1000000"
    lines = drawn(detectors_text(report), 200)
    assert lines[0] == "c10000 on cellar and attic and roof, which is gone, guaranteed, serves 2 subscriptions"
    assert lines[-1] == "2 detectors on 3 nodes, 3 subscriptions of clients"


def test_report_on_detectors_of_several_sites_holds_everything() -> None:
    one, other, _ = as_json(detectors_report(several_sites()))["detectors"]
    assert one["replicas"] == [
        {"node": "attic", "there": True, "at": {"home": AWAY, "site": "floor-2"}},
        {"node": "roof", "there": False, "at": {"home": "mqtt://10.0.9.10:1883", "site": None}},
    ]
    assert one["listening"][1] == {"at": {"home": AWAY, "site": "floor-2"}, "connections": 2}
    assert (one["distribution"], one["measured"]["delay"], one["expected"]["load"]) == (
        "max-reliability",
        126_000_000,
        50,
    )
    assert (other["measured"], other["expected"]["load"], other["at"]["site"]) == (None, 50, "floor-2")


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (-SECOND, "0 s"),
        (999 * MILLISECOND, "0 s"),
        (59 * SECOND, "59 s"),
        (MINUTE, "1 min"),
        (HOUR + MINUTE + SECOND, "1 h 1 min"),
        (HOUR + SECOND, "1 h"),
        (41 * DAY + 23 * HOUR + 59 * MINUTE, "41 d 23 h"),
    ],
)
def test_durations_are_shown_by_their_two_largest_units(duration: int, text: str) -> None:
    assert lasting(duration) == text


# Detectors.

SHARED = {
    "ca-whole": detector("n1", "([A] ; [B]) & [C] -> Out()", 2, parts=("cb-part", "cc-part"), publishes="Out"),
    "cb-part": detector("n2", "[A] ; [B]", 3, parts=("cd-deep",)),
    "cc-part": detector("n1", "[C]", parts=("cd-deep", "ce-missing")),
    "cd-deep": detector("n2", "[A]", 2, policy="guaranteed"),
    "cf-other": detector("n2", "[Out] ; [C]", policy="best-effort", reads=("C", "Out"), publishes="Late"),
}
SYSTEM = directory(["n1", "n2"], SHARED, {"hall": ("A", "B"), "roof": ("A",)})

TREES = [
    (directory(["n1"]), None, ["no detectors"]),
    (SYSTEM, "n9", ["no detectors on the node n9"]),
    (
        SYSTEM,
        None,
        [
            # It serves two readers and a client, so it is at the top as well, before its reader.
            "cb-par on n2, guaranteed, serves 3 subscriptions (1 reader)",
            "  [A] ; [B]",
            "└── cd-dee on n2, guaranteed, serves 2 subscriptions (2 readers)",
            "      [A]",
            "ca-who on n1, guaranteed, publishes Out, serves 2 subscriptions",
            "  ([A] ; [B]) & [C] -> Out()",
            "├── cb-par on n2, as above",
            "└── cc-par on n1, guaranteed, serves 1 subscription (1 reader)",
            "      [C]",
            "    ├── cd-dee on n2, as above",
            "    └── ce-mis, not in the directory",
            "cf-oth on n2, best-effort, publishes Late, serves 1 subscription",
            "  [Out] ; [C]",
            "",
            "5 detectors on 2 nodes, 5 subscriptions of clients",
        ],
    ),
    (
        SYSTEM,
        "n1",
        [
            "ca-who on n1, guaranteed, publishes Out, serves 2 subscriptions",
            "  ([A] ; [B]) & [C] -> Out()",
            "├── cb-par on n2",
            "└── cc-par on n1, guaranteed, serves 1 subscription (1 reader)",
            "      [C]",
            "    ├── cd-dee on n2",
            "    └── ce-mis, not in the directory",
            "",
            "2 detectors on 1 node, 2 subscriptions of clients",
        ],
    ),
    # What nobody reads any more, what is left of a lost node, and what cannot be: a circle.
    (
        directory(
            ["n1"],
            {
                "ca": detector("n7", "[A]", 0),
                "cb": detector("n1", "[B]", parts=("cc",)),
                "cc": detector("n1", "[C]", parts=("cb",)),
            },
        ),
        None,
        [
            "ca on n7, which is gone, guaranteed, serves 0 subscriptions",
            "  [A]",
            "cb on n1, guaranteed, serves 1 subscription (1 reader)",
            "  [B]",
            "└── cc on n1, guaranteed, serves 1 subscription (1 reader)",
            "      [C]",
            "    └── cb on n1, as above",
            "",
            "3 detectors on 2 nodes, 0 subscriptions of clients",
        ],
    ),
]


@pytest.mark.parametrize(("known", "node", "expected"), TREES)
def test_detectors_are_shown_as_a_tree(known: Directory, node: str | None, expected: list[str]) -> None:
    assert drawn(detectors_text(detectors_report(known, node=node))) == expected


def test_excluded_detectors_and_suspects_are_shown_below_the_others() -> None:
    known = directory(["n1"], {"ca": detector("n1", "[A]")})
    reason = "one event concerns more instances of a pattern than nodes look at: 9 (allowed: 8), at pattern [B]; ..."
    known.exclusions["cb"] = ExclusionEntry(UP, "n1", "[B]", reason)
    known.exclusions["cc"] = ExclusionEntry(UP, "n2", "[C]", lost=2)
    report = detectors_report(known)
    assert drawn(detectors_text(report), 200)[-5:] == [
        "1 detector on 1 node, 1 subscription of a client",
        "",
        f"cb excluded until 2026-11-21 09:00:00Z: {reason}",
        "",
        "cc suspected until 2026-11-21 08:10:00Z: 2 nodes lost while it ran there, the last n2, at pattern [C]",
    ]
    assert as_json(report)["excluded"][1] == {
        "id": "cc",
        "pattern": "[C]",
        "reason": "",
        "node": "n2",
        "lost": 2,
        "since": UP,
        "until": UP + 600 * SECOND,
    }
    # Where there is nothing else, too; and not in the report of a node.
    assert len(drawn(detectors_text(detectors_report(directory(["n1"]))), 200)) == 1
    assert detectors_report(known, node="n1").excluded == ()


def test_long_pattern_is_folded_to_the_width() -> None:
    known = directory(["n1"], {"ca": detector("n1", "[A] ; [B] ; [C] ; [D]")})
    assert drawn(detectors_text(detectors_report(known)), 15)[4:7] == ["  [A] ; [B] ;", "  [C] ; [D]", ""]


ABOUT = [
    (
        "cb-part",
        [
            "detector  cb-part",
            "pattern   [A] ; [B]",
            "node      n2",
            "policy    guaranteed",
            "serves    3 subscriptions (1 reader)",
            "types     A from hall, roof",
            "",
            "reads",
            "cd-dee on n2, guaranteed, serves 2 subscriptions (2 readers)",
            "  [A]",
            "",
            "is read by",
            "ca-who on n1, guaranteed, publishes Out, serves 2 subscriptions",
            "  ([A] ; [B]) & [C] -> Out()",
            "└── cf-oth on n2, best-effort, publishes Late, serves 1 subscription",
            "      [Out] ; [C]",
        ],
    ),
    (
        "cf-other",
        [
            "detector   cf-other",
            "pattern    [Out] ; [C]",
            "node       n2",
            "policy     best-effort",
            "publishes  Late()",
            "serves     1 subscription",
            "types      C, not published yet",
            "           Out from ca-who",
            "",
            "reads",
            "ca-who on n1, guaranteed, publishes Out, serves 2 subscriptions",
            "  ([A] ; [B]) & [C] -> Out()",
            "├── cb-par on n2, guaranteed, serves 3 subscriptions (1 reader)",
            "│     [A] ; [B]",
            "│   └── cd-dee on n2, guaranteed, serves 2 subscriptions (2 readers)",
            "│         [A]",
            "└── cc-par on n1, guaranteed, serves 1 subscription (1 reader)",
            "      [C]",
            "    ├── cd-dee on n2, as above",
            "    └── ce-mis, not in the directory",
        ],
    ),
    ("cz", ["the detector cz is not there any more"]),
]


@pytest.mark.parametrize(("name", "expected"), ABOUT)
def test_detector_is_shown_with_its_inputs_and_readers(name: str, expected: list[str]) -> None:
    assert drawn(detectors_text(detectors_report(SYSTEM, about=name))) == expected


def test_report_on_one_detector_holds_all_related_ones() -> None:
    report = detectors_report(SYSTEM, about="cc-part")
    assert [each.id for each in report.detectors] == ["ca-whole", "cc-part", "cd-deep", "cf-other"]
    whole, part, _, other = report.detectors
    assert part.part_of == (Related("ca-whole", "ca-who", "n1"),)
    assert part.parts == (Related("cd-deep", "cd-dee", "n2"), Related("ce-missing", "ce-mis", None))
    assert (part.subscriptions, part.readers, part.for_clients) == (1, 1, 0)
    assert whole.read_by == (Related("cf-other", "cf-oth", "n2"),)
    assert as_json(other.inputs) == [
        {"type": "C", "sources": [], "detectors": []},
        {"type": "Out", "sources": [], "detectors": [{"id": "ca-whole", "short": "ca-who", "node": "n1"}]},
    ]


def test_detector_of_every_event_is_shown_as_such() -> None:
    known = directory(["n1"], {"ca": detector("n1", "[any]", reads=None, exports=("x", "n"))})
    lines = drawn(detectors_text(detectors_report(known, about="ca")))
    assert {"types     every primitive event", "exports   x, n"} <= set(lines)


def test_input_of_best_effort_is_not_shown_for_guaranteed_detection() -> None:
    found = {
        "ca": detector("n1", "[A] -> Out()", policy="best-effort", publishes="Out"),
        "cb": detector("n1", "[Out]", reads=("Out",)),
    }
    report = detectors_report(directory(["n1"], found))
    assert [each.read_by for each in report.detectors] == [(), ()]


# Names that are given.


@given(st.sets(st.text("ab.", min_size=1, max_size=12), max_size=12))
def test_short_id_tells_a_detector_apart(names: set[str]) -> None:
    short = short_ids(names)
    assert short.keys() == names
    for name, text in short.items():
        assert name.startswith(text)
        assert len(text) >= min(len(name), SHORTEST)
        assert text == name or not any(other.startswith(text) for other in names - {name})
        known = directory(["n1"], {each: detector("n1", "[A]") for each in names})
        assert find_detector(known, text) == name


IDS = {
    name: detector("n2" if name == "c777777" else "n1", "[A]") for name in ("c123456", "c123456.best-effort", "c777777")
}
KNOWN = directory(["n1", "n2"], IDS)

FOUND = [
    ("c7", None, "c777777"),
    ("c123456", None, "c123456"),
    ("c123456.", None, "c123456.best-effort"),
    ("c", "n2", "c777777"),
]


@pytest.mark.parametrize(("prefix", "node", "expected"), FOUND)
def test_detector_is_found_by_the_beginning_of_its_id(prefix: str, node: str | None, expected: str) -> None:
    assert find_detector(KNOWN, prefix, node=node) == expected


NOT_FOUND = [
    (
        KNOWN,
        "c12",
        None,
        ("several detectors whose ids begin so", "c123456, c123456.best-effort)", "give more of the id"),
    ),
    (KNOWN, "", None, ("several detectors whose ids begin so: ''", "c123456, c123456.best-effort, c77777")),
    (KNOWN, "c77777x", None, ("no detector with this id prefix: c77777x", "did you mean c77777?")),
    (KNOWN, "zz", None, ("no detector with this id prefix: zz", "distced detectors lists them")),
    (KNOWN, "c9", "n2", ("no detector with this id prefix on the node n2: c9", "allowed: c77777)")),
    (KNOWN, "c777777", "n1", ("a detector that is not on the node n1: c777777", "at node n2")),
    (directory(["n1"]), "c1", None, ("no detector with this id prefix: c1", "none is there")),
]


@pytest.mark.parametrize(("known", "prefix", "node", "said"), NOT_FOUND)
def test_unknown_detector_is_an_error(known: Directory, prefix: str, node: str | None, said: tuple[str, ...]) -> None:
    with pytest.raises(DistcedError) as caught:
        find_detector(known, prefix, node=node)
    for each in said:
        assert each in str(caught.value)


def test_error_names_some_of_many_detectors() -> None:
    known = directory(["n1"], {f"c{number:07}": detector("n1", "[A]") for number in range(100)})
    with pytest.raises(DistcedError, match="c0000007 and 92 more"):
        find_detector(known, "c0")


@pytest.mark.parametrize("name", ["n1", "n2", "gone"])
def test_node_is_known_by_its_entry_or_what_it_has_left(name: str) -> None:
    check_node(directory(["n1", "n2"], {"ca": detector("gone", "[A]")}), name)


@pytest.mark.parametrize(
    ("known", "name", "said"),
    [
        (KNOWN, "n22", ("no broker node of this name: n22", "n1, n2", "did you mean n2?")),
        (KNOWN, "attic", ("no broker node of this name: attic", "distced nodes lists them")),
        (directory(), "n1", ("no broker node of this name: n1", "none is there")),
    ],
)
def test_unknown_node_is_an_error(known: Directory, name: str, said: tuple[str, ...]) -> None:
    with pytest.raises(DistcedError) as caught:
        check_node(known, name)
    for each in said:
        assert each in str(caught.value)
