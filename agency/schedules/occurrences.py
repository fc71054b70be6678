"""When something is due that happens once, at an interval or by cron. Pure: the clock is an argument.

All times are instants, in milliseconds since 1970; a time zone only says which instants a cron expression names. When
clocks go forward, what names a time in the hour that is missing is due in the moment of the change; when they go back,
what names a time that comes twice is due the first time. What is due every hour, or every so many minutes, goes on as
time goes by. That is how cron has it.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator

from agency.events import timestamp
from agency.wire import Wire

Kind = Literal["once", "interval", "cron"]

EVERY_LEAST = 1_000
EVERY_MOST = 366 * 24 * 3_600_000

_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_WANTS = {"once": "at", "interval": "every_ms", "cron": "cron"}
_TAKES = {"once": {"at"}, "interval": {"at", "every_ms"}, "cron": {"cron"}}


class Timing(Wire):
    """When a schedule is due."""

    kind: Kind
    timezone: Annotated[
        str,
        StringConstraints(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_+/-]*$"),
        Field(description="Whose clocks count, as in `Europe/Berlin`.", examples=["UTC", "Europe/Berlin"]),
    ] = "UTC"
    at: Annotated[
        str | None,
        StringConstraints(max_length=64),
        Field(
            description="ISO 8601. When, for `once`; the first time, for `interval`, if it is not one interval away."
        ),
    ] = None
    every_ms: Annotated[
        int | None, Field(ge=EVERY_LEAST, le=EVERY_MOST, description="For `interval`: from one time to the next.")
    ] = None
    cron: Annotated[
        str | None,
        StringConstraints(max_length=200),
        Field(
            description="For `cron`: minute, hour, day of the month, month, day of the week.", examples=["0 9 * * 1-5"]
        ),
    ] = None

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        _zone(name)
        return name

    @field_validator("at")
    @classmethod
    def _an_instant(cls, given: str | None, info: ValidationInfo) -> str | None:
        """As a timestamp; a time that names no offset is one of the time zone."""
        if given is None:
            return None
        try:
            at = datetime.fromisoformat(given)
            zone = _zone(info.data.get("timezone", "UTC"))
            return timestamp(_ms(at if at.tzinfo is not None else at.replace(tzinfo=zone)))
        except (ValueError, OverflowError):
            raise ValueError("that is no time; one reads 2027-03-28T09:00:00Z, or 2027-03-28T09:00") from None

    @field_validator("cron")
    @classmethod
    def _a_cron_expression(cls, given: str | None) -> str | None:
        if given is None:
            return None
        fields = given.split()
        if len(fields) != 5:
            raise ValueError(f"a cron expression has five fields, as in '0 9 * * 1-5'; this one has {len(fields)}")
        try:
            next(CronSim(given, _LONG_AGO))
        except CronSimError:
            raise ValueError(_what_is_wrong(fields)) from None
        except StopIteration:
            raise ValueError("there is no such day, in no year") from None
        return " ".join(fields)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        given = {name for name in ("at", "every_ms", "cron") if getattr(self, name) is not None}
        if _WANTS[self.kind] not in given or not given <= _TAKES[self.kind]:
            raise ValueError(
                "`once` goes with `at`, `interval` with `everyMs` (and `at`, if you like), `cron` with `cron`: "
                "with that and with no other"
            )
        return self

    def next_after(self, t: int) -> int | None:
        """The first time after `t` that it is due; None if there is none."""
        if self.cron is not None:
            return self._next_by_cron(t)
        assert self.at is not None, "an interval that has begun has one"
        first = instant(self.at)
        if first > t:
            return first
        return None if self.every_ms is None else first + ((t - first) // self.every_ms + 1) * self.every_ms

    def latest_until(self, due: int, t: int) -> int:
        """The last time up to `t` that it is due, given an earlier one. However many there are in between, looking
        for it takes no longer than to halve the time some forty times."""
        following = self.next_after(due)
        if following is None or following > t:
            return due
        latest, beyond = following, t
        while beyond - latest > 1:
            middle = (latest + beyond) // 2
            found = self.next_after(middle)
            if found is not None and found <= t:
                latest = found
            else:
                beyond = middle
        return latest

    def _next_by_cron(self, t: int) -> int | None:
        assert self.cron is not None
        for at in CronSim(self.cron, datetime.fromtimestamp(t // 1_000, _zone(self.timezone))):
            if (due := _ms(at)) > t:  # in an hour that comes twice, the first one's are over
                return due
        return None


_FIELDS = {
    "minute": "0–59",
    "hour": "0–23",
    "day of the month": "1–31",
    "month": "1–12 or JAN–DEC",
    "day of the week": "0–7 or SUN–SAT",
}


def _what_is_wrong(fields: list[str]) -> str:
    """Which field of a cron expression cannot be, and what would be right."""
    for n, (name, values) in enumerate(_FIELDS.items()):
        try:
            CronSim(" ".join(field if i == n else "*" for i, field in enumerate(fields)), _LONG_AGO)
        except CronSimError:
            forms = "" if fields[n].isdigit() else ", a list as 1,2, a range as 1-5 or a step as */2"
            return f"the {name} must be {values}{forms}, not {fields[n]}"
    return f"no month {fields[3]} has a day {fields[2]}"


def instant(text: str) -> int:
    """A timestamp as milliseconds since 1970."""
    return _ms(datetime.fromisoformat(text))


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)


def _zone(name: str) -> tzinfo:
    """`ValueError` if there is none of that name."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}; they are named as in Europe/Berlin, or UTC") from None
