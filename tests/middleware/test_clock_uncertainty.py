"""Uncertainty of clocks: configured, or as the kernel has it; events of a source are widened by it."""

from __future__ import annotations

import pytest

from distced.middleware.model.clock_uncertainty import MOST, NTP, READ_EVERY, error_of, ntp_uncertainty, uncertainty_of
from distced.middleware.model.errors import DistcedError, EventError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND
from distced.simulations.network.in_memory import InMemoryDeployment

STEP = event_type("Step", {"room": "string"})


@pytest.mark.parametrize(
    ("offset", "maxerror", "status", "error"),
    [(0, 1_500, 0, 1_500_000), (-20, 1_500, 1, 1_520_000), (-20_000, 1_500, 0x2001, 1_520_000)],
)
def test_error_is_the_offset_and_the_maximum_error(offset: int, maxerror: int, status: int, error: int) -> None:
    assert error_of(offset, maxerror, status) == error


def test_clock_that_is_not_synchronised_is_an_error_with_advice() -> None:
    with pytest.raises(DistcedError, match="not synchronised: status 0x40; set it"):
        error_of(0, 16_000_000, 0x40, advice="set it")


def test_clock_of_this_machine_has_an_error_or_says_why_not() -> None:
    try:
        assert 0 <= ntp_uncertainty() < MOST
    except DistcedError as error:
        assert "chrony" in str(error)


@pytest.mark.parametrize("given", [-1, MOST + 1, 1.5, "2ms", None, True])
def test_other_values_are_errors(given: object) -> None:
    with pytest.raises(DistcedError, match="not an uncertainty of a clock"):
        uncertainty_of(given)  # type: ignore[arg-type]


def test_error_of_the_machine_is_read_each_second_and_grows_without() -> None:
    errors = iter([5, 7])

    def read() -> int:
        found = next(errors, None)
        if found is None:
            raise DistcedError("the clock is not synchronised")
        return found

    uncertainty = uncertainty_of(NTP, read)
    assert [uncertainty(0), uncertainty(READ_EVERY - 1)] == [7, 7]
    assert uncertainty(READ_EVERY) == 7 + READ_EVERY // 2_000
    with pytest.raises(DistcedError, match="not synchronised"):
        uncertainty_of(NTP, read)


def test_events_of_a_source_are_widened() -> None:
    """Of two sources with clocks a second apart at most, neither event is certainly the first."""
    with InMemoryDeployment() as deployment:
        client = deployment.client("app")
        client.register(STEP)
        exact = client.source("exact", ["Step"], watermark=0)
        vague = client.source("vague", ["Step"], watermark=0, uncertainty=SECOND)
        found = client.subscribe("[Step where room == 'a'] ; [Step where room == 'b']")
        assert [(each.lo, each.hi) for each in (vague.create("Step", 5 * SECOND, room="x"),)] == [
            (4 * SECOND, 6 * SECOND)
        ]
        interval = vague.create("Step", 5 * SECOND, 7 * SECOND, room="x")
        assert (interval.lo, interval.hi) == (4 * SECOND, 8 * SECOND)
        exact.publish(exact.create("Step", 10 * SECOND, room="a"))
        # Half a second later by a clock that may be wrong by a second.
        vague.publish(vague.create("Step", 10 * SECOND + SECOND // 2, room="b"))
        vague.publish(vague.create("Step", 12 * SECOND, room="b"))
        for each in (exact, vague):
            each.heartbeat(20 * SECOND)
        deployment.settle()
        assert [each.hi for each in found.events()] == [13 * SECOND]
        with pytest.raises(EventError):
            vague.create("Step", "now", room="b")  # type: ignore[arg-type]
