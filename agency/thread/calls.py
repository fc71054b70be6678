"""Running one tool call, with its hooks, its timeout and its outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, from_json, to_json

from agency.captured import recording
from agency.clock import now_ms
from agency.codes import USED_UP
from agency.define.asides import AsksModels, AsksNothing, Place
from agency.define.blueprint import Blueprint
from agency.define.context import ToolContext
from agency.define.outside import IssuesNone, IssuesTokens, OutsideWait
from agency.define.results import ToolResult
from agency.define.tools import Tool
from agency.errors import FailureKind, HookFailed, Interrupted, InvalidInput, ModelError, ToolError
from agency.messages import Image
from agency.metadata import ThreadMetadata
from agency.runtime import Runtime
from agency.secrets import Declared, bytes_without_secrets, free_of_secrets, has_secrets, without_secrets
from agency.store.draft import Draft
from agency.store.store import ThreadStore, run_id
from agency.thread.doing import Doing
from agency.thread.files import keep_files, keeps_files
from agency.thread.pipeline import Pipeline
from agency.thread.run_facts import TOOL_RESULT_CUT
from agency.thread.traces import Trace, shows_stack
from agency.thread.workers import TimedOut, in_worker_thread, is_ours, what_failed, within
from agency.tracebacks import is_unexpected, log_failure, stack_of
from agency.turn.effects import PendingCall
from agency.turn.outcomes import Asked, CallOutcome, Deferred, Fail, Failure, Finish, Handoff, Success
from agency.wire import sayable, sayable_text

log = logging.getLogger(__name__)

RESULT_CHARS = 100_000
"""A longer result is cut: the model's window is finite."""

IN_DOUBT = (
    "the process died while this call was running. It may or may not have taken effect: "
    "find out before you do anything that depends on it, and do not simply repeat it"
)
STOPPED = Failure(
    kind="external",
    source="runtime",
    message="a new message came first, and this call was stopped while it was running. It may or may not have taken "
    "effect: find out before you do anything that depends on it, and do not simply repeat it",
)


class CallRunner:
    def __init__(
        self,
        store: ThreadStore,
        pipeline: Pipeline,
        thread: ThreadMetadata,
        blueprint: Blueprint,
        runtime: Runtime,
        agents: Mapping[str, Blueprint],
        offered: Callable[[], Collection[str]],
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._thread = thread
        self._blueprint = blueprint
        self._runtime = runtime
        self._agents = agents
        self._offered = offered
        self._starting: set[str] = set()
        self._declared: dict[str, Declared] = {}
        self._stopped: dict[str, Trace] = {}
        self.asks: AsksModels = AsksNothing()
        """What tools ask models by; the driver sets it."""
        self.tokens: IssuesTokens = IssuesNone()
        """What lets calls wait for the outside; the driver sets it, too."""

    async def run(
        self, pending: PendingCall, run: int, effect: int, limit_s: float | None
    ) -> tuple[CallOutcome, Draft, HookFailed | None]:
        """Run a call. It does not raise: whatever goes wrong is its outcome.

        The draft holds what the tool and the hooks wrote; of a call that failed, only what the hooks wrote after it.
        The last part is a hook that failed after the call had ended.
        """
        with recording(self._thread.id, pending.id, pending.call.name) as kept:
            trace = Trace(pending.id, pending.begun, kept)
            try:
                return await self._run(pending, run, effect, limit_s, trace)
            except asyncio.CancelledError:
                self._stopped[pending.key] = trace
                raise
            finally:
                self._starting.discard(pending.key)

    def keep_trace(self, draft: Draft, pending: PendingCall) -> None:
        """Stage what a call had printed that was stopped while it ran."""
        if (trace := self._stopped.pop(pending.key, None)) is not None:
            trace.keep(draft)

    async def _run(
        self, pending: PendingCall, run: int, effect: int, limit_s: float | None, trace: Trace
    ) -> tuple[CallOutcome, Draft, HookFailed | None]:
        draft = self._store.draft(run)
        with Doing(self._thread, run_id(self._thread.id, run), "tool", f"tool {pending.call.name}") as doing:
            outcome = await self._outcome(pending, draft, run, effect, limit_s, trace)
        if outcome.status in ("failure", "canceled"):
            draft = self._store.draft(run)
        if outcome.status == "success" and len(outcome.content) > RESULT_CHARS:
            cut = f"a result of {pending.call.name} was longer than {RESULT_CHARS:,} characters and was cut"
            draft.warn(TOOL_RESULT_CUT, cut)
        doing.warn(draft)
        mark, failed = draft.mark(), None
        try:
            await self._after(draft, pending, outcome)
        except HookFailed as error:
            draft.undo(mark)
            failed = error
        trace.keep(draft)
        return outcome, draft, failed

    async def _outcome(
        self, pending: PendingCall, draft: Draft, run: int, effect: int, limit_s: float | None, trace: Trace
    ) -> CallOutcome:
        name, offered = pending.call.name, self._offered()
        if (why := self._pipeline.unavailable(name)) is not None:
            return Failure(kind="unavailable", source="middleware", message=why)
        tool = self._pipeline.tools.get(name) if name in offered else None
        if tool is None:
            known = ", ".join(known for known in self._pipeline.tools if known in offered) or "none"
            return Failure(
                kind="invalid_request", source="runtime", message=f"no tool is named {name!r}; there are: {known}"
            )
        try:
            tool.bind(pending.call.args)
            await self._pipeline.on_tool_start(draft, run_id(self._thread.id, run), pending.call)
        except InvalidInput as error:
            return Failure(kind="invalid_request", source="runtime", message=str(error))
        except HookFailed as error:
            trace.traceback = error.stack
            return Failure(kind="internal", source="middleware", message=str(error))
        context = self._context(pending, tool, draft, run, effect)
        outcome = await self._invoke(tool, pending.call.args, context, _least(tool.timeout, limit_s))
        trace.traceback = context.traceback
        if context.returned_files and isinstance(outcome, Success):
            return await self._keep(tool, draft, context.returned_files, outcome)
        return outcome

    async def _keep(
        self, tool: Tool, draft: Draft, files: Mapping[str, str | bytes], outcome: Success
    ) -> Success | Failure:
        """Hand files that came with a result to the agent's file keepers, and tell the model of them."""
        listed = ", ".join(f"{path} ({_size(content)} bytes)" for path, content in files.items())
        if not keeps_files(self._pipeline):
            return _with_note(outcome, f"(You have no filesystem to keep: {listed})")
        try:
            await keep_files(self._pipeline, draft, files)
        except InvalidInput as error:
            return Failure(kind="execution", message=f"{tool.name} returned what cannot be kept: {error}")
        except HookFailed as error:
            return Failure(kind="internal", source="middleware", message=str(error))
        return replace(_with_note(outcome, f"(Kept as files: {listed})"), files=tuple(files))

    def _context(self, pending: PendingCall, tool: Tool, draft: Draft, run: int, effect: int) -> ToolContext:
        return ToolContext(
            thread=self._thread,
            run_id=run_id(self._thread.id, run),
            call_id=pending.id,
            idempotency_key=f"{self._thread.id}.{pending.key}",
            attempt=pending.attempt,
            blueprint=self._blueprint,
            agents=self._agents,
            store=draft,
            shelves=self._runtime.shelves(),
            file_limits=self._runtime.file_limits(),
            effect=effect,
            token=pending.key,
            secrets=self._declared_by(tool),
            place=Place(f"{pending.key}.{pending.attempt}", pending.call.name, pending.id),
            asks=self.asks,
            tokens=self.tokens,
            starting=self._starting,
            options=self._pipeline.options,
            provided=self._pipeline.provided,
        )

    def _declared_by(self, tool: Tool) -> Declared:
        if (known := self._declared.get(tool.name)) is None:
            known = self._declared[tool.name] = self._pipeline.lookups.of_tool(tool, self._pipeline.owner_of(tool.name))
        return known

    async def _invoke(self, tool: Tool, args: JsonValue, context: ToolContext, timeout: float | None) -> CallOutcome:
        mark = context.store.mark()
        try:
            work = perform(tool, args, context) if tool.ray is None else self._runtime.offload(tool, args, context)
            outcome = await (work if timeout is None else within(timeout, work))
            if isinstance(outcome, Deferred) and outcome.waits_for not in context.deferred:
                message = f"{tool.name} returned a Deferred that no method of the context has given it"
                return Failure(kind="execution", message=message)
            context.store.remove_secrets(mark)
            context.store.try_out(mark)
            return without_values(outcome)
        except TimedOut:
            return Failure(kind="timeout", source="runtime", message=f"{tool.name} did not end within {timeout:g} s")
        except Interrupted:
            return self.in_doubt(tool)
        except ToolError as error:
            if shows_stack(error):
                context.traceback = stack_of(error)
            return _tool_failure(tool, context.attempt, error)
        except ModelError as error:  # of a model that the tool has asked
            kind: FailureKind = "resource_limit" if error.model_code in USED_UP else "external"
            return Failure(kind=kind, message=without_secrets(sayable_text(f"{error.model_code}: {error}")))
        except PydanticSerializationError as error:
            message = without_secrets(f"{tool.name} returned what JSON cannot say: {error}")
            return Failure(kind="execution", message=message)
        except BaseException as error:
            if is_ours(error):
                raise
            context.traceback = stack_of(error)
            if is_unexpected(error):
                log_failure(log, failed_call(tool, context), error)
            return Failure(kind="execution", message=what_failed(error))

    def in_doubt(self, tool: Tool, since: int | None = None) -> Failure | Deferred:
        """What comes of a call that had begun, may have taken effect, and must not simply run again."""
        if not (is_doubtful(tool) and tool.in_doubt == "ask"):
            return Failure(kind="external", source="runtime", message=IN_DOUBT)
        time = self._pipeline.decision_ms()
        until = None if time is None else now_ms() + time
        return Deferred(waits_for="approval", asked=Asked(note=IN_DOUBT, in_doubt=True, since=since, until=until))

    async def _after(self, draft: Draft, pending: PendingCall, outcome: CallOutcome) -> None:
        run = run_id(self._thread.id, draft.run)
        match outcome:
            case Success(content=content):
                await self._pipeline.on_tool_result(draft, run, pending.call, content)
            case Failure(message=message):
                await self._pipeline.on_tool_error(draft, run, pending.call, message)


def _least(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


def failed_call(tool: Tool, context: ToolContext) -> str:
    """What the log says of a call whose tool has raised."""
    return f"tool {tool.name} failed in call {context.call_id} of thread {context.thread.id}"


def is_doubtful(tool: Tool | None) -> bool:
    """Whether a call that had begun before a crash must not simply run again."""
    return tool is not None and not tool.idempotent and tool.in_doubt != "rerun"


def arguments_for(tool: Tool, args: JsonValue, context: ToolContext) -> dict[str, Any]:
    """The function's keyword arguments."""
    arguments = tool.bind(args)
    if (takes_context := tool.arguments.context_parameter) is not None:
        arguments[takes_context] = context
    return arguments


async def perform(tool: Tool, args: JsonValue, context: ToolContext) -> CallOutcome:
    """The call itself. What it returns is turned into text here too: that may be the longest part of it."""
    arguments = arguments_for(tool, args, context)
    if tool.is_async:
        return as_outcome(await tool.function(**arguments), context)
    return await in_worker_thread(lambda: as_outcome(tool.function(**arguments), context))


def as_outcome(result: object, context: ToolContext) -> CallOutcome:
    """What a tool has returned, as the outcome of its call. Files that came with it are left in the context."""
    match result:
        case Deferred():
            return result
        case OutsideWait(about=about, deadline=deadline):
            return Deferred(waits_for="outside", about=about, until=deadline)
        case Finish(value=value):
            return replace(success_of(value), control=Finish(value=sayable(from_json(to_json(value)))))
        case Handoff(thread_id=thread_id):
            other = sayable_text(str(thread_id))
            return Success(content=f"handed off to {other}", control=Handoff(other))
        case Fail(message=message):
            said = sayable_text(str(message))
            return Success(content=said, control=Fail(message=said))
        case Image():
            return _taken_apart(ToolResult(images=(result,)), context)
        case ToolResult():
            return _taken_apart(result, context)
        case _:
            return success_of(result)


def without_values(outcome: CallOutcome) -> CallOutcome:
    """The outcome of a call without the values of secrets, in the process that has looked them up."""
    if not has_secrets():
        return outcome
    match outcome:
        case Success(content=content, control=control):
            match control:
                case Finish(value=value):
                    control = Finish(value=free_of_secrets(value))
                case Fail(message=message):
                    control = Fail(message=without_secrets(message))
            return replace(outcome, content=without_secrets(content), control=control)
        case Failure(message=message):
            return replace(outcome, message=without_secrets(message))
        case _:
            return outcome


def _taken_apart(result: ToolResult, context: ToolContext) -> Success | Failure:
    try:
        images, files = result.checked()
    except InvalidInput as error:
        return Failure(kind="execution", message=f"the tool returned what cannot be used: {error}")
    for path, content in files.items():
        free = without_secrets(sayable_text(content)) if isinstance(content, str) else bytes_without_secrets(content)
        context.returned_files[without_secrets(sayable_text(path))] = free
    return replace(success_of(result.content), images=tuple(_at_free_address(image) for image in images))


def _at_free_address(image: Image) -> Image:
    """An address may have a key in it."""
    return image if image.url is None else image.model_copy(update={"url": without_secrets(image.url)})


def success_of(value: object) -> Success:
    """A tool that returns nothing has an empty result."""
    if value is None:
        return Success(content="")
    is_json = not isinstance(value, str)
    text = _json(value) if is_json else without_secrets(sayable_text(str(value)))
    if (left_out := len(text) - RESULT_CHARS) <= 0:
        return Success(content=text, is_json=is_json)
    return Success(content=f"{text[:RESULT_CHARS]}\n… ({left_out} more characters were cut)")


def _json(value: object) -> str:
    """Secrets are taken out of the value, so that what is left is still JSON."""
    said = to_json(value, inf_nan_mode="null")
    return (to_json(free_of_secrets(from_json(said))) if has_secrets() else said).decode()


def _size(content: str | bytes) -> int:
    return len(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))


def _with_note(outcome: Success, note: str) -> Success:
    content = f"{outcome.content}\n{note}" if outcome.content else note
    return replace(outcome, content=content, is_json=False)


def _tool_failure(tool: Tool, attempt: int, error: ToolError) -> Failure:
    message = without_secrets(sayable_text(str(error)))
    if not error.retry or tool.retry is None:
        return Failure(kind=error.kind, message=message)
    if attempt >= tool.retry.attempts:
        return Failure(kind=error.kind, message=f"{message} (after {attempt} attempts)", retry="exhausted")
    wait = error.retry_after_ms if error.retry_after_ms is not None else tool.retry.delay_ms(attempt)
    return Failure(kind=error.kind, message=message, retry="safe", after_ms=wait)
