"""The bodies of the HTTP API that concern schedules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue

from agency.api.body import AgencyName, Body, IdempotencyKey, example
from agency.define.blueprint import Models, Name
from agency.define.options import ToolFilter
from agency.models.interface import ModelParams
from agency.schedules.occurrences import Kind
from agency.schedules.schedule import CatchUp, Overlap, Schedule
from agency.turn.state import Limits


class NewSchedule(Body, Schedule):
    """Threads that an agency starts by itself."""

    model_config = example(
        name="the morning's orders",
        agentType="support",
        message="Go through the orders of last night.",
        kind="cron",
        cron="0 6 * * 1-6",
        timezone="Europe/Berlin",
    )

    idempotency_key: IdempotencyKey = None

    @property
    def fields(self) -> dict[str, JsonValue]:
        return self.model_dump(mode="json", by_alias=False, exclude_unset=True, exclude={"idempotency_key"})


class ScheduleChange(Body):
    """A change of a schedule: fields that are left out keep their values. A time of another `kind` replaces the present
    one, and a changed interval counts from now on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "paused"}, {"cron": "0 7 * * 1-6"}]})

    changes = Schedule

    status: Annotated[
        Literal["active", "paused"] | None,
        Field(
            description="`paused` starts nothing. `active` continues with the next time; times that passed are skipped."
        ),
    ] = None
    name: AgencyName | None = None
    agent_type: Name | None = None
    message: str | None = None
    kind: Kind | None = None
    timezone: str | None = None
    at: str | None = None
    every_ms: int | None = None
    cron: str | None = None
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    limits: Limits | None = None
    model: Models | None = None
    params: ModelParams | None = None
    tools: ToolFilter | None = None
    options: dict[Name, JsonValue] | None = None

    @property
    def fields(self) -> dict[str, JsonValue]:
        return self.model_dump(mode="json", by_alias=False, exclude_unset=True, exclude={"status"})


class RunWanted(Body):
    model_config = example(idempotencyKey="monday-again")

    idempotency_key: IdempotencyKey = None
