"""When things are due: once, at an interval, by cron, and by whose clocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agency.events import timestamp
from agency.schedules.occurrences import EVERY_MOST, Timing, instant

SPRING = instant("2027-03-28T01:00:00Z")
"""When clocks in Berlin go forward, from 02:00 to 03:00."""
AUTUMN = instant("2027-10-31T01:00:00Z")
"""When they go back, from 03:00 to 02:00."""
HOUR = 3_600_000


def cron(expression: str, zone: str = "UTC") -> Timing:
    return Timing(kind="cron", cron=expression, timezone=zone)


def due(timing: Timing, after: str, times: int = 3) -> list[str]:
    """The next times, to the minute."""
    found: list[str] = []
    t = instant(after)
    while len(found) < times and (following := timing.next_after(t)) is not None:
        t = following
        found.append(timestamp(t)[:16])
    return found


def test_once_is_due_once() -> None:
    timing = Timing(kind="once", at="2027-01-02T03:04:05Z")
    assert due(timing, "2027-01-01T00:00:00Z") == ["2027-01-02T03:04"]
    assert due(timing, "2027-01-02T03:04:05Z") == []


def test_a_time_without_an_offset_is_one_of_the_time_zone() -> None:
    assert Timing(kind="once", at="2027-07-01T09:00", timezone="Europe/Berlin").at == "2027-07-01T07:00:00.000Z"
    assert Timing(kind="once", at="2027-07-01T09:00").at == "2027-07-01T09:00:00.000Z"
    assert Timing(kind="once", at="2027-07-01T09:00+05:30").at == "2027-07-01T03:30:00.000Z"


def test_an_interval_is_counted_from_its_first_time_whenever_one_asks() -> None:
    timing = Timing(kind="interval", every_ms=90 * 60_000, at="2027-01-01T00:10:00Z")
    assert due(timing, "2026-01-01T00:00:00Z") == ["2027-01-01T00:10", "2027-01-01T01:40", "2027-01-01T03:10"]
    assert due(timing, "2027-01-01T02:00:00Z", 1) == ["2027-01-01T03:10"]


def test_cron_is_read_as_everywhere() -> None:
    assert due(cron("0 9 * * 1-5"), "2027-01-01T08:00:00Z") == [
        "2027-01-01T09:00",  # a Friday
        "2027-01-04T09:00",
        "2027-01-05T09:00",
    ]
    assert due(cron("*/20 8,9 1 JAN *"), "2027-01-01T08:30:00Z") == [
        "2027-01-01T08:40",
        "2027-01-01T09:00",
        "2027-01-01T09:20",
    ]
    assert due(cron("0 0 29 2 *"), "2027-01-01T00:00:00Z", 1) == ["2028-02-29T00:00"]
    assert due(cron("0 9 * * *", "America/New_York"), "2027-01-01T00:00:00Z", 1) == ["2027-01-01T14:00"]


# Summer time.


def test_every_day_is_once_a_day_though_an_hour_is_missing_or_comes_twice() -> None:
    daily = cron("30 2 * * *", "Europe/Berlin")
    assert due(daily, "2027-03-27T00:00:00Z") == ["2027-03-27T01:30", "2027-03-28T01:00", "2027-03-29T00:30"]
    assert due(daily, "2027-10-30T00:00:00Z") == ["2027-10-30T00:30", "2027-10-31T00:30", "2027-11-01T01:30"]


def test_in_the_second_of_two_hours_what_was_due_in_the_first_is_over() -> None:
    assert due(cron("30 2 * * *", "Europe/Berlin"), "2027-10-31T01:10:00Z", 1) == ["2027-11-01T01:30"]


@pytest.mark.parametrize("change", [SPRING, AUTUMN], ids=["forward", "back"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_every_hour_is_every_hour_whatever_the_clocks_say(change: int, zone: str) -> None:
    hourly, t = cron("0 * * * *", zone), change - 3 * HOUR
    for n in range(1, 7):
        assert hourly.next_after(t + (n - 1) * HOUR) == t + n * HOUR


def test_utc_has_no_summer_time() -> None:
    assert due(cron("30 2 * * *"), "2027-03-27T00:00:00Z") == [
        "2027-03-27T02:30",
        "2027-03-28T02:30",
        "2027-03-29T02:30",
    ]


# What holds for all of them.

TIMINGS = st.one_of(
    st.builds(
        cron,
        st.sampled_from(["* * * * *", "0 * * * *", "30 2 * * *", "0 2,3 * * 0", "*/7 1-3 * 3,10 *", "0 0 1 * MON"]),
        st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
    ),
    st.builds(
        lambda every, at: Timing(kind="interval", every_ms=every, at=timestamp(at)),
        st.integers(1_000, EVERY_MOST),
        st.integers(SPRING - 1000 * HOUR, AUTUMN),
    ),
)
NEAR_A_CHANGE = st.one_of(*(st.integers(change - 48 * HOUR, change + 48 * HOUR) for change in (SPRING, AUTUMN)))


@settings(deadline=None)
@given(TIMINGS, NEAR_A_CHANGE, st.integers(0, 48 * HOUR))
def test_the_next_time_is_later_and_none_is_left_out(timing: Timing, t: int, later: int) -> None:
    following = timing.next_after(t)
    assert following is not None and following > t
    after = timing.next_after(t + later)
    assert after is not None
    assert after == following if t + later < following else after > t + later


@settings(deadline=None)
@given(TIMINGS, NEAR_A_CHANGE, st.integers(0, 20 * HOUR))
def test_the_latest_time_is_the_one_after_which_there_is_none_until_then(timing: Timing, t: int, later: int) -> None:
    first = timing.next_after(t)
    assert first is not None
    until = first + later
    latest = timing.latest_until(first, until)
    assert first <= latest <= until
    following = timing.next_after(latest)
    assert following is not None and following > until
    assert latest == first or timing.next_after(latest - 1) == latest


def test_years_of_minutes_are_passed_over_without_counting_them() -> None:
    assert cron("* * * * *").latest_until(SPRING, SPRING + 100_000 * HOUR + 5) == SPRING + 100_000 * HOUR


@settings(deadline=None)
@given(st.integers(0, 4_000_000_000_000))
def test_a_timestamp_is_exact(ms: int) -> None:
    assert instant(timestamp(ms)) == ms


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "once"}, "`once` goes with `at`"),
        ({"kind": "once", "at": "2027-01-01", "cron": "* * * * *"}, "with no other"),
        ({"kind": "once", "at": "tomorrow"}, "no time"),
        ({"kind": "once", "at": "9999-12-31T23:59:59-12:00"}, "no time"),
        ({"kind": "interval"}, "`interval` with `everyMs`"),
        ({"kind": "interval", "everyMs": 999}, "greater than or equal to 1000"),
        ({"kind": "interval", "everyMs": EVERY_MOST + 1}, "less than or equal"),
        ({"kind": "cron", "cron": "* * * * * *"}, "five fields"),
        ({"kind": "cron", "cron": "61 * * * *"}, "the minute must be 0–59, not 61"),
        ({"kind": "cron", "cron": "0 24 * * *"}, "the hour must be 0–23, not 24"),
        ({"kind": "cron", "cron": "0 0 0 * *"}, "the day of the month must be 1–31, not 0"),
        ({"kind": "cron", "cron": "0 0 * 13 *"}, "the month must be 1–12 or JAN–DEC, not 13"),
        ({"kind": "cron", "cron": "0 0 * * 8"}, "the day of the week must be 0–7 or SUN–SAT, not 8"),
        ({"kind": "cron", "cron": "*/0 * * * *"}, "a step as */2, not */0"),
        ({"kind": "cron", "cron": "0 0 31 4 *"}, "no month 4 has a day 31"),
        ({"kind": "cron", "cron": "9" * 201}, "at most 200"),
        ({"kind": "cron", "cron": "0 0 * * *", "timezone": "Mars/Olympus"}, "no time zone"),
        ({"kind": "cron", "cron": "0 0 * * *", "timezone": "Europe"}, "no time zone"),
        ({"kind": "cron", "cron": "0 0 * * *", "timezone": "../../etc/passwd"}, "pattern"),
        ({"kind": "weekly"}, "once"),
    ],
)
def test_a_time_that_is_none_is_explained(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Timing.model_validate(wrong)
    assert said in str(raised.value)
