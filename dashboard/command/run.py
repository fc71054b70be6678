"""`agency run`: run one task from the terminal to its result, in this process or at a server."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.console import Console
from rich.text import Text

from agency.define.options import RunOptionFields, ToolFilter
from agency.errors import InvalidInput, WrongState
from agency.thread.protocols import AnyThread
from agency.thread.views import RunEnvelope, RunStatus
from agency.wire import read_json
from dashboard.command.installation import DEMO
from dashboard.command.terminal.backends import Backend
from dashboard.command.terminal.console import AsJson, DataDir, IsDemo, SystemOption, app, err, out, print_json
from dashboard.command.terminal.display import RunDisplay
from dashboard.command.terminal.prompts import ApproveAll, AskAtTerminal, Decider, LeaveWaiting
from dashboard.command.terminal.rendering import call_line, canceler, clean, dollars
from dashboard.command.terminal.session import Session
from dashboard.command.terminal.targets import AgencyId
from dashboard.command.workplace import Workplace

WAITS = 3
ENDS_WITH: dict[RunStatus, int] = {
    "completed": 0,
    "error": 1,
    "registered": 1,
    "running": WAITS,
    "paused": WAITS,
    "canceled": 130,
}
"""The command's exit code. When the command ends while the run is still `running`, a subagent waits for a person."""

CANCEL_SECONDS = 10.0


@app.command()
def run(
    task: Annotated[str | None, typer.Argument(help="What to do. With --continue, another message.")] = None,
    system: SystemOption = None,
    agent: Annotated[
        str | None,
        typer.Option(help="The agent. [dim]Default: the module's AGENT, or the first one[/]", show_default=False),
    ] = None,
    resume: Annotated[str | None, typer.Option("--continue", metavar="THREAD", help="Continue an earlier run.")] = None,
    model: Annotated[
        str | None, typer.Option(help="The model of this run. [dim]Default: the agent's[/]", show_default=False)
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--tool", metavar="NAME", help="Only this tool, for this run; can be repeated.", show_default=False
        ),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option(
            "--no-tool", metavar="NAME", help="Not this tool, for this run; can be repeated.", show_default=False
        ),
    ] = None,
    for_middleware: Annotated[
        str | None,
        typer.Option("--options", metavar="JSON", help="Options for this run by middleware.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve every call that waits for approval.")] = False,
    data_dir: DataDir = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Run the task at this server. [dim]Default: AGENCY_URL, else in this process[/]", show_default=False
        ),
    ] = None,
    agency: AgencyId = None,
    as_json: AsJson = False,
    demo: IsDemo = False,
) -> None:
    """Run one task in the terminal, without a server. Ctrl-C cancels it.

    [dim]Exit codes: 0 completed, 1 failed, 3 waits for a person, 130 canceled.[/]
    """
    opened = Workplace.of(url, agency, system, data_dir, resume, demo=demo, model=model)
    if task is None and resume is None:
        if opened.system != DEMO:
            raise InvalidInput('say what to do: agency run "…"')
        from dashboard import demo as offline

        task = offline.TASK
    if not as_json:
        opened.introduce(model)
    for_run = _for_run(model, allow, deny, for_middleware)
    if task is None and for_run:
        raise InvalidInput("--model, --tool, --no-tool and --options are for the run that a message starts: say one")
    wanted = TaskOptions(task, agent, resume, yes, as_json, opened.options, for_run)
    raise typer.Exit(asyncio.run(_run(opened.backend(resume), wanted)))


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """The options of one `agency run`."""

    task: str | None
    agent: str | None
    resume: str | None
    yes: bool
    as_json: bool
    options: tuple[str, ...]
    """The options that find the run again."""
    for_run: RunOptionFields

    def go_on(self, thread: str, *more: str) -> str:
        return shlex.join(["agency", "run", "--continue", thread, *self.options, *more])


def _for_run(
    model: str | None, allow: list[str] | None, deny: list[str] | None, for_middleware: str | None
) -> RunOptionFields:
    found = RunOptionFields()
    if model is not None:
        found["model"] = model
    if allow or deny:
        found["tools"] = ToolFilter(allow=tuple(allow) if allow else None, deny=tuple(deny or ()))
    if for_middleware is not None:
        try:
            given = read_json(for_middleware)
        except ValueError as error:
            raise InvalidInput(f"--options is no JSON: {error}") from error
        if not isinstance(given, dict):
            raise InvalidInput("--options is a JSON object, with the options of middleware by their names")
        found["options"] = given
    return found


async def _run(opening: AbstractAsyncContextManager[Backend], wanted: TaskOptions) -> int:
    async with opening as backend:
        root = await _begin(backend, wanted)
        display = RunDisplay(Console(stderr=True, quiet=wanted.as_json))
        session = Session(backend, root, display, _decider(wanted, display))
        try:
            with display.showing():
                run = await session.follow()
            display.finish()
        except asyncio.CancelledError:  # Ctrl-C; a second one ends the process at once
            run = await cancel_run(backend, root)
        return _tell(run, session, wanted, backend.name(root.id))


async def _begin(backend: Backend, wanted: TaskOptions) -> AnyThread:
    if wanted.resume is not None:
        return await backend.resume(wanted.resume, wanted.task, wanted.for_run)
    assert wanted.task is not None
    return await backend.begin(wanted.agent, wanted.task, wanted.for_run)


def _decider(wanted: TaskOptions, display: RunDisplay) -> Decider:
    if wanted.yes:
        return ApproveAll()
    return AskAtTerminal(display) if sys.stdin.isatty() else LeaveWaiting()


async def cancel_run(backend: Backend, root: AnyThread) -> RunEnvelope:
    err.print("canceling …")
    with suppress(WrongState):  # the run has ended
        await root.cancel()
    run = await root.wait(CANCEL_SECONDS)
    with suppress(TimeoutError):
        async with asyncio.timeout(CANCEL_SECONDS):
            await backend.settle(root)
    return run


def _tell(run: RunEnvelope, session: Session, wanted: TaskOptions, name: str) -> int:
    """Print the result; the exit code."""
    if wanted.as_json:
        print_json(run)
    else:
        _print_end(run, session, wanted, name)
    return ENDS_WITH[run.status]


def _print_end(run: RunEnvelope, session: Session, wanted: TaskOptions, name: str) -> None:
    if run.status == "completed":
        print_result(run.data)
    for error in run.errors:
        err.print(Text.assemble((error.code, "red"), f" {clean(error.message)}"), soft_wrap=True)
    if (by := run.meta.canceled_by) is not None:
        err.print(f"canceled by {canceler(by.kind, by.name or '')}", markup=False, highlight=False)
    for call in (call for calls in session.waiting.values() for call in calls):
        err.print("✋ ", call_line(call), sep="", soft_wrap=True)
    used = what_was_used(run)
    told = f"{run.status}: {used} · {'waits for a person' if ENDS_WITH[run.status] == WAITS else 'to go on'}: "
    more = () if ENDS_WITH[run.status] == WAITS else ("…",)
    err.print(told + wanted.go_on(name, *more), style="dim", markup=False, highlight=False, soft_wrap=True)


def what_was_used(run: RunEnvelope) -> str:
    turns = f"{run.meta.turns} turn{'s' if run.meta.turns != 1 else ''}"
    spent = f"{run.meta.tokens_used.total:,} tokens, {_cost(run.meta.cost_usd)}"
    return f"{turns}, {spent}, {run.meta.duration_ms / 1000:.1f} s"


def _cost(cost: float | None) -> str:
    return "cost unknown" if cost is None else dollars(cost)


def print_result(result: JsonValue) -> None:
    text = result if isinstance(result, str) else json.dumps(result, indent=2, ensure_ascii=False)
    if out.is_terminal:
        out.print(Text(clean(text)))
    else:
        sys.stdout.write(text + "\n")
