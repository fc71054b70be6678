"""Tools with `ray` options: each call is a Ray task with the resources that the tool asks for.

The worker imports the system and finds the tool by its name, so what a module loads once stays loaded. The task's
context can stage writes, and they are committed with the result, as for any other tool. Ray itself retries nothing: a
worker that dies is a crash in the middle of a call, and what follows is the tool's policy.

A worker has the secrets that its tool declares, and no others: it asks the host for them, for the time of the call.
Their values are taken out of what the tool says before it leaves the worker.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import ray
from pydantic import JsonValue
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from actors.settings import Settings, load_system
from agency import captured
from agency.define.context import ToolContext
from agency.define.provided import ProvidesNothing, Provision
from agency.define.tools import Tool
from agency.errors import Interrupted, ToolError
from agency.secrets import NoSecret, handed, look_up, remember_environment, without_secrets
from agency.store.draft import NOTHING, Draft
from agency.thread.calls import arguments_for, as_outcome, failed_call, is_doubtful, without_values
from agency.thread.supply import Supply
from agency.thread.traces import shows_stack
from agency.thread.workers import STOP_GRACE, what_failed
from agency.tracebacks import log_stack, stack_of
from agency.turn.outcomes import CallOutcome, Failure

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a call that may simply run again is started, if its worker dies."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What comes back from a worker."""

    outcome: CallOutcome | ToolError
    staged: Draft
    spawned: bool
    files: dict[str, str | bytes]
    """What came with the result, for the agent to keep."""
    traceback: str = ""
    printed: str = ""
    """What the tool printed and logged."""


async def offload(host: str, settings: Settings, tool: Tool, args: JsonValue, context: ToolContext) -> CallOutcome:
    """Run a call as a Ray task. Canceling it stops the task, and ends its worker if it will not stop."""
    for attempt in range(1, ATTEMPTS + 1):
        ref = _submit(host, settings, tool, args, context)
        try:
            ran: Ran = await ref
        except asyncio.CancelledError:
            ray.cancel(ref)
            asyncio.get_running_loop().call_later(STOP_GRACE / 2, functools.partial(ray.cancel, ref, force=True))
            raise
        except RayTaskError as error:
            context.traceback = stack_of(error.cause)
            log_stack(log, failed_call(tool, context), context.traceback)
            return Failure(kind="execution", message=what_failed(error.cause))
        except RayError as error:
            if is_doubtful(tool):
                raise Interrupted(f"the worker of {tool.name} died: {type(error).__name__}") from error
            if attempt == ATTEMPTS:
                message = f"the worker of {tool.name} died {ATTEMPTS} times: {type(error).__name__}"
                return Failure(kind="unavailable", source="runtime", message=message)
            continue
        context.store.absorb(ran.staged)
        context.spawned = ran.spawned
        context.returned_files = ran.files
        captured.replay(ran.printed)
        if ran.traceback:
            context.traceback = ran.traceback
            if not isinstance(ran.outcome, ToolError):
                log_stack(log, failed_call(tool, context), ran.traceback)
        if isinstance(ran.outcome, ToolError):
            raise ran.outcome
        return ran.outcome
    raise AssertionError("the last attempt returns")


def _submit(host: str, settings: Settings, tool: Tool, args: JsonValue, context: ToolContext) -> Any:
    task = _task().options(max_retries=0, name=f"tool {tool.name}", **(tool.ray or {}))
    return task.remote(host, settings.model_copy(update={"environment": ""}), tool.name, args, context)


def handed_over(tool: Tool) -> dict[str, str]:
    """In the host: the values of the variables that a tool declares. Its files are where the task runs."""
    found: dict[str, str] = {}
    for reference in tool.secrets.values():
        with suppress(NoSecret):  # the tool is told when it asks for it
            if reference.startswith("env:"):
                found[reference] = look_up(reference)
    return found


def _run(host: str, settings: Settings, name: str, args: JsonValue, context: ToolContext) -> Ran:
    """In the worker."""
    captured.capture(lines=False)
    remember_environment()
    system = load_system(settings)
    tool = system.tool(name)
    values: dict[str, str] = {}
    if tool.secrets:
        handle: Any = ray.get_actor(host, namespace=settings.namespace)
        values = ray.get(handle.secrets_of.remote(name))
    with handed(values), captured.recording(context.thread.id, context.call_id, name) as kept:
        outcome = _outcome(tool, args, context, system.provision)
    context.provided = ProvidesNothing()
    context.store.remove_secrets(NOTHING)
    printed = "" if kept is None else kept.text()
    return Ran(outcome, context.store, context.spawned, context.returned_files, context.traceback, printed)


def _outcome(tool: Tool, args: JsonValue, context: ToolContext, provision: Provision) -> CallOutcome | ToolError:
    """A sync tool runs in the worker's main thread, where a cancellation can interrupt it."""
    try:
        with asyncio.Runner() as runner, _supplied(tool, context, provision, runner):
            arguments = arguments_for(tool, args, context)
            result = tool.function(**arguments)
            return without_values(as_outcome(runner.run(result) if tool.is_async else result, context))
    except ToolError as error:
        if shows_stack(error):
            context.traceback = stack_of(error)
        error.args = (without_secrets(str(error)),)
        return error
    except TaskCancelledError:
        raise
    except Exception as error:  # as it is, it might say a secret
        context.traceback = stack_of(error)
        return Failure(kind="execution", message=what_failed(error))


@contextmanager
def _supplied(tool: Tool, context: ToolContext, provision: Provision, runner: asyncio.Runner) -> Iterator[None]:
    """Give a tool that says so what the system provides, opened in this worker for the time of the call."""
    if tool.arguments.deps is None:
        yield
        return

    async def opened() -> Supply:
        made = Supply(provision)
        await made.open()
        return made

    supply = runner.run(opened())
    context.provided = supply
    try:
        yield
    finally:
        runner.run(supply.close())


@functools.cache
def _task() -> Any:
    """Not made while this module is imported: see `actors/cluster/fork_server.py`."""
    return ray.remote(_run)
