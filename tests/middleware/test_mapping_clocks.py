"""Mappings: the time of an event, and clocks that are missing, wrong or strange."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.middleware.mapping import Mapping, parse_mapping
from distced.middleware.model.timestamps import DAY, HOUR, MILLISECOND, MINUTE, SECOND, parse_instant

NOON = parse_instant("2026-06-21T12:00:00Z")


def live(time: str) -> Mapping:
    """A mapping of one rule for live messages, with this time table."""
    return parse_mapping(f'[[rule]]\nname = "r"\ntopic = "t"\ntype = "E"\nsource = "s"\ntime = {time}\n')


def rows(time: str) -> Mapping:
    """The same for rows, whose arrival nobody noted."""
    return parse_mapping(f'[[rule]]\nname = "r"\ntype = "E"\nsource = "{{s}}"\ntime = {time}\n')


def arrive(mapping: Mapping, payload: object, arrival: int = NOON) -> tuple[int, int] | str:
    """The timestamp, or the reason why there is none."""
    events, rejected = mapping.map("t", json.dumps(payload).encode(), arrival)
    return (events[0].lo, events[0].hi) if events else rejected[0].reason


def read(mapping: Mapping, **row: object) -> tuple[int, int] | str:
    events, rejected = mapping.map_row({"s": "s", **row}, "row")
    return (events[0].lo, events[0].hi) if events else rejected[0].reason


def utc(text: str) -> int:
    return parse_instant(text)


FORMATS = [
    # the keys of the time table, the value, the instant
    ('format = "iso"', "2026-06-21T12:00:00.123456789Z", NOON + 123_456_789),
    ('format = "iso"', "2026-06-21 14:00:00+02:00", NOON),
    ('format = "iso"', "2026-06-21T12:00:00", NOON),
    ('format = "iso"', "2026-06-21", NOON - 12 * HOUR),
    ('format = "iso", timezone = "Europe/Berlin"', "2026-06-21T14:00:00", NOON),
    ('format = "iso", timezone = "Europe/Berlin"', "2026-06-21T14:00:00.123456789", NOON + 123_456_789),
    ('format = "iso", timezone = "Europe/Berlin"', "2026-06-21T12:00:00Z", NOON),
    ('format = "iso", timezone = "-03:30"', "2026-06-21T08:30:00", NOON),
    ('format = "iso"', "noon", None),
    ('format = "iso"', 1750507200, None),
    ('format = "s"', NOON // SECOND, NOON),
    ('format = "s"', str(NOON // SECOND), NOON),
    ('format = "s"', 1585673980.123, 1585673980_123000000),
    ('format = "s"', "1585673980.123456789", 1585673980_123456789),
    ('format = "ms"', 1585673980123, 1585673980_123000000),
    ('format = "us"', 1585673980123456, 1585673980_123456000),
    ('format = "ns"', 1585673980123456789, 1585673980123456789),
    ('format = "s"', 0, 0),
    ('format = "s"', -1, -SECOND),
    ('format = "s"', True, None),
    ('format = "s"', "soon", None),
    ('format = "s"', "1e400", None),
    ('format = "s"', "1e999999999", None),
    ('format = "s"', "Infinity", None),
    ('format = "ms"', 10**18, None),
    ('format = "%Y%m%d%H%M"', "202606211200", NOON),
    ('format = "%d.%m.%Y %H:%M:%S.%f", timezone = "Europe/Berlin"', "21.06.2026 14:00:00.5", NOON + SECOND // 2),
    ('format = "%Y-%m-%dT%H:%M:%S%z", timezone = "Europe/Berlin"', "2026-06-21T14:00:00+0200", NOON),
    ('format = "%Y-%j"', "2026-172", NOON - 12 * HOUR),
    ('format = "%Y%m%d"', "20260631", None),
    ('format = "%Y%m%d"', "99991231", None),
    ('format = "%b %d %H:%M:%S", year = 2026', "Jun 21 12:00:00", NOON),
    ('format = "%b %d %H:%M:%S", year = 2028', "Feb 29 00:00:00", utc("2028-02-29T00:00:00Z")),
    ('format = "%b %d %H:%M:%S", year = 2026', "Feb 29 00:00:00", None),
]


@pytest.mark.parametrize(("keys", "value", "instant"), FORMATS)
def test_time_is_read_in_its_format(keys: str, value: object, instant: int | None) -> None:
    expected = "time" if instant is None else (instant, instant)
    assert read(rows(f'{{path = "x", {keys}}}'), x=value) == expected


@pytest.mark.parametrize(
    ("keys", "row", "expected"),
    [
        ('path = "x", uncertainty = "2s"', {"x": 10}, (8, 12)),
        ('path = "x", before = "20s"', {"x": 10}, (-10, 10)),
        ('path = "x", after = "1s", uncertainty = "2s"', {"x": 10}, (8, 13)),
        ('start = "x", end = "y"', {"x": 10, "y": 15}, (10, 15)),
        ('start = "x", end = "y", uncertainty = "1s"', {"x": 10, "y": 10}, (9, 11)),
        ('start = "x", end = "y"', {"x": 15, "y": 10}, "time"),
        ('start = "x", end = "y"', {"x": 15}, "time"),
        ('start = "x", end = "y"', {"x": "", "y": 15}, "time"),
        ('text = "{x}.{y}"', {"x": 1, "y": 5}, (1.5, 1.5)),
        ('path = "x"', {}, "time"),
        ('path = "x", otherwise = "arrival"', {}, "time"),
    ],
)
def test_interval_is_read_from_both_ends(keys: str, row: dict[str, object], expected: object) -> None:
    if isinstance(expected, tuple):
        expected = tuple(int(each * SECOND) for each in expected)
    assert read(rows(f'{{{keys}, format = "s"}}'), **row) == expected


def test_arrival_is_the_time_where_there_is_none() -> None:
    assert arrive(parse_mapping('[[rule]]\ntopic = "t"\ntype = "E"\nsource = "s"\n'), {}) == (NOON, NOON)
    mapping = live('{delay = "2s"}')
    assert arrive(mapping, {}) == (NOON - 2 * SECOND, NOON)
    assert mapping.counts == {("r", "event"): 1}


@pytest.mark.parametrize("payload", [{}, {"x": None}, {"x": ""}, {"x": "noon"}, {"x": 0}, {"x": NOON // SECOND + 61}])
def test_missing_or_wrong_clock_rejects_or_takes_the_arrival(payload: object) -> None:
    keys = 'path = "x", format = "s", skew = "1min", uncertainty = "5s", delay = "2s"'
    assert arrive(live(f"{{{keys}}}"), payload) == "time"
    mapping = live(f'{{{keys}, otherwise = "arrival"}}')
    assert arrive(mapping, payload) == (NOON - 2 * SECOND, NOON)
    assert mapping.counts["r", "by arrival"] == 1


@pytest.mark.parametrize("seconds", [-60, 0, 60])
def test_clock_within_the_skew_is_believed(seconds: int) -> None:
    mapping = live('{path = "x", format = "s", skew = "1min"}')
    instant = NOON + seconds * SECOND
    assert arrive(mapping, {"x": instant // SECOND}) == (instant, instant)


def test_clock_that_jumps_back_is_held() -> None:
    mapping = rows('{path = "x", format = "s", clock = "monotone"}')
    assert [read(mapping, x=each) for each in (10, 14, 11, 13, 20)] == [
        tuple(each * SECOND for each in interval) for interval in [(10, 10), (14, 14), (11, 14), (13, 14), (20, 20)]
    ]
    assert mapping.counts["r", "held"] == 2
    # Every source has a clock of its own.
    assert read(mapping, s="other", x=3) == (3 * SECOND, 3 * SECOND)


@given(claims=st.lists(st.integers(0, 1000), min_size=1, max_size=30))
def test_held_clock_never_goes_back_and_covers_what_it_says(claims: list[int]) -> None:
    mapping = rows('{path = "x", format = "s", clock = "monotone", uncertainty = "1s"}')
    hi = None
    for claim in claims:
        interval = read(mapping, x=claim)
        assert not isinstance(interval, str)
        assert interval[0] == (claim - 1) * SECOND
        assert interval[1] >= (claim + 1) * SECOND
        assert hi is None or interval[1] >= hi
        hi = interval[1]
    assert hi == (max(claims) + 1) * SECOND


@given(
    error=st.integers(-(10**9), 10**9),
    gaps=st.lists(st.integers(0, 600), min_size=1, max_size=20),
    delays=st.lists(st.integers(0, 5_000), min_size=20, max_size=20),
)
def test_constant_error_is_found_up_to_the_quickest_delay(error: int, gaps: list[int], delays: list[int]) -> None:
    """With `uncertainty` as long as delays can be, the interval holds the true instant from the first message on."""
    mapping = live('{path = "x", format = "ms", clock = "offset", skew = "10s", uncertainty = "5s"}')
    true = NOON
    for gap, delay in zip(gaps, delays, strict=False):
        true += gap * SECOND
        arrival = true + delay * MILLISECOND
        interval = arrive(mapping, {"x": (true // SECOND + error) * 1000}, arrival)
        assert not isinstance(interval, str)
        assert interval[0] <= true <= interval[1] <= arrival
    assert mapping.counts["r", "offset relearnt"] == 0


def test_clock_that_is_set_again_is_learnt_again() -> None:
    mapping = live('{path = "x", format = "s", clock = "offset", skew = "10s"}')
    clock = NOON // SECOND - 1000
    assert arrive(mapping, {"x": clock}, NOON) == (NOON, NOON)
    # 3 s under way, as the first message, which took no time, shows.
    assert arrive(mapping, {"x": clock + 10}, NOON + 13 * SECOND) == (NOON + 10 * SECOND, NOON + 10 * SECOND)
    assert arrive(mapping, {"x": 5}, NOON + 20 * SECOND) == (NOON + 20 * SECOND, NOON + 20 * SECOND)
    assert mapping.counts["r", "offset relearnt"] == 1
    # And forward: the difference has become smaller.
    assert arrive(mapping, {"x": 10**9}, NOON + 30 * SECOND) == (NOON + 30 * SECOND, NOON + 30 * SECOND)


@pytest.mark.parametrize("zone", ["+14:00", "+05:45", "+02:00", "+00:00", "-03:30", "-12:00"])
@pytest.mark.parametrize("seconds", [-300, 0, 7, 400])
def test_local_time_of_an_unknown_zone_is_shifted(zone: str, seconds: int) -> None:
    """A message that was 7 s or 400 s under way, or whose clock is 300 s ahead."""
    true = NOON - seconds * SECOND
    offset = datetime.fromisoformat(f"2026-01-01T00:00:00{zone}").utcoffset()
    assert offset is not None
    shown = datetime.fromtimestamp(true // SECOND, UTC) + offset
    payload = {"x": f"{shown:%Y-%m-%dT%H:%M:%S}"}
    assert arrive(live('{path = "x", clock = "zone"}'), payload) == (true, true)
    expected = (true, true) if abs(seconds) <= 60 else "time"
    assert arrive(live('{path = "x", clock = "zone", skew = "1min"}'), payload) == expected


@pytest.mark.parametrize("shown", ["1970-01-01T00:00:09", "2026-06-22T02:15:00", "2026-06-20T23:45:00"])
def test_clock_farther_off_than_any_zone_is_wrong(shown: str) -> None:
    assert arrive(live('{path = "x", clock = "zone"}'), {"x": shown}) == "time"
    assert arrive(live('{path = "x", clock = "zone", otherwise = "arrival"}'), {"x": shown}) == (NOON, NOON)


SYSLOG = '{path = "x", format = "%b %d %H:%M:%S", year = 2005}'


def test_year_grows_at_new_year() -> None:
    mapping = rows(SYSLOG)
    for shown, meant in [
        ("Jun  9 06:06:20", "2005-06-09T06:06:20Z"),
        ("Dec 31 23:59:59", "2005-12-31T23:59:59Z"),
        ("Jan  1 00:00:01", "2006-01-01T00:00:01Z"),
        # A clock that jumps back across New Year.
        ("Dec 31 20:00:00", "2005-12-31T20:00:00Z"),
        ("Jan  1 00:00:02", "2006-01-01T00:00:02Z"),
        ("Jun 30 00:00:00", "2006-06-30T00:00:00Z"),
        ("Dec 30 00:00:00", "2006-12-30T00:00:00Z"),
        ("May  1 00:00:00", "2007-05-01T00:00:00Z"),
        ("Oct  1 00:00:00", "2007-10-01T00:00:00Z"),
        ("Feb 29 00:00:00", "2008-02-29T00:00:00Z"),
    ]:
        assert read(mapping, x=shown) == (utc(meant), utc(meant)), shown


@pytest.mark.parametrize(
    ("arrival", "shown", "meant"),
    [
        ("2026-01-01T00:00:05Z", "Dec 31 23:59:58", "2025-12-31T23:59:58Z"),
        ("2025-12-31T23:59:58Z", "Jan  1 00:00:03", "2026-01-01T00:00:03Z"),
        ("2024-03-01T00:00:00Z", "Feb 29 23:59:59", "2024-02-29T23:59:59Z"),
    ],
)
def test_arrival_tells_the_year(arrival: str, shown: str, meant: str) -> None:
    mapping = live('{path = "x", format = "%b %d %H:%M:%S"}')
    assert arrive(mapping, {"x": shown}, utc(arrival)) == (utc(meant), utc(meant))


# Summer time in Berlin ends on 25 October 2026 at 01:00 UTC, and begins on 29 March at 01:00 UTC.
TWICE = "2026-10-25T02:30:00"
FIRST, SECOND_TIME = utc("2026-10-25T00:30:00Z"), utc("2026-10-25T01:30:00Z")


def test_local_time_that_occurs_twice_is_two_instants() -> None:
    keys = 'path = "x", timezone = "Europe/Berlin"'
    assert read(rows(f"{{{keys}}}"), x=TWICE) == (FIRST, SECOND_TIME)
    assert arrive(live(f"{{{keys}}}"), {"x": TWICE}, FIRST + 5 * SECOND) == (FIRST, FIRST)
    assert arrive(live(f"{{{keys}}}"), {"x": TWICE}, SECOND_TIME + 5 * SECOND) == (SECOND_TIME, SECOND_TIME)


def test_local_time_that_does_not_occur_is_read() -> None:
    lo, hi = read(rows('{path = "x", timezone = "Europe/Berlin"}'), x="2026-03-29T02:30:00")
    assert (lo, hi) == (utc("2026-03-29T00:30:00Z"), utc("2026-03-29T01:30:00Z"))


@given(st.datetimes(datetime(1980, 1, 1), datetime(2035, 1, 1)), st.sampled_from(["Europe/Berlin", "America/St_Johns"]))
def test_local_time_reads_back(moment: datetime, zone: str) -> None:
    from zoneinfo import ZoneInfo

    moment = moment.replace(tzinfo=UTC)
    true = utc(moment.isoformat())
    shown = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat()
    interval = read(rows(f'{{path = "x", timezone = "{zone}"}}'), x=shown)
    assert not isinstance(interval, str)
    assert interval[0] <= true <= interval[1] <= interval[0] + HOUR
    assert true in interval


def test_timestamp_beyond_64_bits_is_rejected() -> None:
    assert read(rows('{path = "x", format = "ns", uncertainty = "1d"}'), x=2**63 - 1 - DAY + 1) == "time"


def test_rejected_message_teaches_nothing() -> None:
    mapping = parse_mapping(
        """
        [[rule]]
        type = "E"
        source = "s"
        time = {path = "x", format = "s", clock = "monotone"}
        attributes = {y = "number"}
        """
    )
    assert mapping.map_row({"x": 1000, "y": "?"}, "row").rejected
    assert mapping.map_row({"x": 10}, "row").events[0].hi == 10 * SECOND


def test_second_deliveries_of_rows_go_by_their_own_time() -> None:
    mapping = parse_mapping(
        """
        [[rule]]
        type = "E"
        source = "s"
        time = {path = "x", format = "s"}
        duplicates = {within = "1min", by = ["id"]}
        """
    )
    rows_ = [{"x": 0, "id": 1}, {"x": 60, "id": 1}, {"x": 61, "id": 1}, {"x": 62, "id": 2}]
    assert [len(mapping.map_row(row, "row").events) for row in rows_] == [1, 0, 1, 1]
    assert MINUTE == 60 * SECOND
