"""`agency schedules`: threads that an agency starts by itself, and the results."""

from __future__ import annotations

import itertools
import re
from typing import Annotated

import typer

from agency.errors import InvalidInput
from agency.schedules.occurrences import Kind
from agency.schedules.schedule import CatchUp, Overlap, ScheduleInfo, SchedulePage, ScheduleRun, ScheduleRunPage
from dashboard.command.terminal.console import AsJson, DataDir, app, err, out, print_json, print_table
from dashboard.command.terminal.rendering import clean, moment, one_line
from dashboard.command.terminal.targets import OneAgency, ServerUrl, server, the_agency

schedules = typer.Typer(help="Manage the threads that an agency starts by itself.")
app.add_typer(schedules, name="schedules")

UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

OneSchedule = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's name or id.", show_default=False)]


@schedules.callback(invoke_without_command=True)
def list_schedules(
    ctx: typer.Context,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List an agency's schedules, and the next time of each."""
    if ctx.invoked_subcommand is not None:
        return
    with server(url, data_dir) as client:
        found = tuple(the_agency(client, agency).schedules())
    if as_json:
        print_json(SchedulePage(schedules=found))
        return
    if not found:
        err.print("there are no schedules; `agency schedules create` makes one")
    rows = [
        (each.id, clean(each.name), each.agent_type, _timing(each), each.status, moment(each.next_at or ""))
        for each in found
    ]
    print_table(("schedule", "name", "agent", "when", "status", "next"), rows)


@schedules.command("create")
def create_schedule(
    name: Annotated[str, typer.Argument(help="A name for the schedule.", show_default=False)],
    agent: Annotated[str, typer.Option(help="The agent of the threads.", show_default=False)],
    message: Annotated[str, typer.Option(help="The first message of each thread.", show_default=False)],
    at: Annotated[
        str | None,
        typer.Option(help="The only or first time, such as 2027-03-28T09:00, in the time zone.", show_default=False),
    ] = None,
    every: Annotated[str | None, typer.Option(help="An interval: 90s, 15m, 2h or 1d.", show_default=False)] = None,
    cron: Annotated[
        str | None, typer.Option(help="A cron expression: minute, hour, day, month, weekday.", show_default=False)
    ] = None,
    timezone: Annotated[str, typer.Option(help="The time zone, such as Europe/Berlin.")] = "UTC",
    overlap: Annotated[Overlap, typer.Option(help="What to do while the previous run is in progress.")] = "skip",
    catch_up: Annotated[
        CatchUp, typer.Option(help="How many threads to start for times that passed while nothing ran.")
    ] = "one",
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Create a schedule that starts threads once (--at), at an interval (--every) or by --cron."""
    kind: Kind = "cron" if cron is not None else "interval" if every is not None else "once"
    if at is None and kind == "once":
        raise InvalidInput("say when: --at, --every or --cron")
    with server(url, data_dir) as client:
        made = the_agency(client, agency).create_schedule(
            name=name,
            agent_type=agent,
            message=message,
            kind=kind,
            at=at,
            every_ms=None if every is None else _ms(every),
            cron=cron,
            timezone=timezone,
            overlap=overlap,
            catch_up=catch_up,
        )
    _tell(made, as_json=as_json)


@schedules.command("pause")
def pause_schedule(
    schedule: OneSchedule,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Pause a schedule: it starts nothing until you resume it."""
    with server(url, data_dir) as client:
        _tell(the_agency(client, agency).pause_schedule(schedule), as_json=as_json)


@schedules.command("resume")
def resume_schedule(
    schedule: OneSchedule,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Resume a schedule at its next time. Times that passed in the meantime are skipped."""
    with server(url, data_dir) as client:
        _tell(the_agency(client, agency).resume_schedule(schedule), as_json=as_json)


@schedules.command("run")
def run_schedule(
    schedule: OneSchedule,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Run a schedule now."""
    with server(url, data_dir) as client:
        run = the_agency(client, agency).run_schedule(schedule)
    if as_json:
        print_json(run)
    else:
        out.print(run.thread_id or _outcome(run), highlight=False, markup=False, soft_wrap=True)


@schedules.command("runs")
def list_runs(
    schedule: OneSchedule,
    limit: Annotated[int, typer.Option(min=1, help="The number of runs.")] = 20,
    agency: OneAgency = None,
    url: ServerUrl = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the runs of a schedule, the newest first."""
    with server(url, data_dir) as client:
        found = tuple(itertools.islice(the_agency(client, agency).schedule_runs(schedule), limit))
    if as_json:
        print_json(ScheduleRunPage(runs=found))
        return
    rows = [(moment(each.due_at), each.by, _outcome(each), each.thread_id or "") for each in found]
    print_table(("due", "by", "status", "thread"), rows)


@schedules.command("delete")
def delete_schedule(
    schedule: OneSchedule, agency: OneAgency = None, url: ServerUrl = None, data_dir: DataDir = None
) -> None:
    """Delete a schedule and its history. The threads that it started stay."""
    with server(url, data_dir) as client:
        the_agency(client, agency).delete_schedule(schedule)
    err.print(f"deleted {schedule}", highlight=False, markup=False)


def _ms(given: str) -> int:
    read = re.fullmatch(r"(\d{1,9})([smhd])", given)
    if read is None:
        raise InvalidInput(f"an interval reads 90s, 15m, 2h or 1d, not {given!r:.100}")
    return int(read[1]) * UNITS[read[2]]


def _interval(ms: int) -> str:
    """The interval in the largest unit that divides it."""
    unit, size = next(((unit, size) for unit, size in reversed(UNITS.items()) if ms % size == 0), ("ms", 1))
    return f"{ms // size}{unit}"


def _timing(schedule: ScheduleInfo) -> str:
    if schedule.cron is not None:
        return clean(f"{schedule.cron} {schedule.timezone}")
    return f"every {_interval(schedule.every_ms)}" if schedule.every_ms is not None else "once"


def _outcome(run: ScheduleRun) -> str:
    return run.status if run.error is None else f"{run.status}: {one_line(run.error)}"


def _tell(schedule: ScheduleInfo, *, as_json: bool) -> None:
    if as_json:
        print_json(schedule)
        return
    due = "" if schedule.next_at is None else f", next at {moment(schedule.next_at)} UTC"
    out.print(f"{schedule.id} is {schedule.status}{due}", highlight=False, markup=False, soft_wrap=True)
