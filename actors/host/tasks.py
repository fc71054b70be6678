"""Tools with `ray` options: each call is a Ray task with the resources that the tool asks for.

The worker imports the system and finds the tool by its name, so what a module loads once stays loaded. The task's
context can stage writes, and they are committed with the result, as for any other tool. Ray itself retries nothing: a
worker that dies is a crash in the middle of a call, and what follows is the tool's policy.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from typing import Any

import ray
from pydantic import JsonValue
from ray.exceptions import RayError, RayTaskError

from actors.settings import Settings, load_system
from agency.define.context import ToolContext
from agency.define.tools import Tool
from agency.errors import Interrupted, ToolError
from agency.store.draft import Draft
from agency.thread.calls import arguments_for, as_outcome, is_doubtful
from agency.thread.workers import STOP_GRACE
from agency.turn.outcomes import CallOutcome, Failure

ATTEMPTS = 3
"""How often a call that may simply run again is started, if its worker dies."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What comes back from a worker."""

    outcome: CallOutcome | ToolError
    staged: Draft
    spawned: bool


async def offload(settings: Settings, tool: Tool, args: JsonValue, context: ToolContext) -> CallOutcome:
    """Run a call as a Ray task. Canceling it stops the task, and ends its worker if it will not stop."""
    for attempt in range(1, ATTEMPTS + 1):
        ref = _submit(settings, tool, args, context)
        try:
            ran: Ran = await ref
        except asyncio.CancelledError:
            ray.cancel(ref)
            asyncio.get_running_loop().call_later(STOP_GRACE / 2, functools.partial(ray.cancel, ref, force=True))
            raise
        except RayTaskError as error:
            return Failure(kind="execution", message=f"{type(error.cause).__name__}: {error.cause}")
        except RayError as error:
            if is_doubtful(tool):
                raise Interrupted(f"the worker of {tool.name} died: {type(error).__name__}") from error
            if attempt == ATTEMPTS:
                message = f"the worker of {tool.name} died {ATTEMPTS} times: {type(error).__name__}"
                return Failure(kind="unavailable", source="runtime", message=message)
            continue
        context.store.absorb(ran.staged)
        context.spawned = ran.spawned
        if isinstance(ran.outcome, ToolError):
            raise ran.outcome
        return ran.outcome
    raise AssertionError("the last attempt returns")


def _submit(settings: Settings, tool: Tool, args: JsonValue, context: ToolContext) -> Any:
    remote: Any = _RUN
    task = remote.options(max_retries=0, name=f"tool {tool.name}", **(tool.ray or {}))
    return task.remote(settings.model_copy(update={"environment": {}}), tool.name, args, context)


def _run(settings: Settings, name: str, args: JsonValue, context: ToolContext) -> Ran:
    """In the worker. A sync tool runs in its main thread, where a cancellation can interrupt it."""
    tool = load_system(settings).tool(name)
    outcome: CallOutcome | ToolError
    try:
        arguments = arguments_for(tool, args, context)
        result = tool.function(**arguments)
        outcome = as_outcome(asyncio.run(result) if tool.is_async else result)
    except ToolError as error:
        outcome = error
    return Ran(outcome, context.store, context.spawned)


_RUN = ray.remote(_run)
