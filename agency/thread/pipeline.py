"""The middleware of one thread: it runs their hooks in the order of registration and names the one that fails.

The one idea: a hook is code of others. Whatever it raises becomes `HookFailed` under its own name, and what it staged
is tried out against the database at once, so that a later commit cannot fail because of it. Hooks write to the caller's
draft only; nothing here commits. Requests for files are in `files.py`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from pydantic import BaseModel, JsonValue

from agency import events
from agency.approvals.always import always_approved
from agency.approvals.rules import Policy
from agency.define.asides import AsksModels, AsksNothing
from agency.define.blueprint import Blueprint
from agency.define.file_limits import FILE_LIMITS, FileLimits
from agency.define.hooks import AnyMiddleware, ChildReport, HookContext, Middleware, Plan, RunEnd, given_to
from agency.define.options import NO_OPTIONS, RunOptions, ToolFilter
from agency.define.provided import Provided, ProvidesNothing
from agency.define.system import declared_by
from agency.define.tools import Tool
from agency.errors import AgencyError, DefinitionError, HookFailed, InvalidInput
from agency.events import ToolType
from agency.messages import ToolCall
from agency.metadata import ThreadMetadata
from agency.secrets import free_of_secrets, has_secrets, without_secrets
from agency.shelves.interface import ShelfStore
from agency.store.draft import Draft
from agency.thread.doing import Doing
from agency.thread.lookups import CheckSecret, Lookups
from agency.thread.openings import UNAVAILABLE, ProcessOpenings, ThreadOpenings
from agency.thread.risk import RiskWatch
from agency.thread.workers import is_ours, what_failed
from agency.tracebacks import is_unexpected, log_failure, stack_of
from agency.turn.effects import Ask, ModelReply
from agency.turn.outcomes import (
    Decision,
    Deny,
    Fail,
    Failure,
    Finish,
    Finished,
    OnTimeout,
    Risk,
    Settled,
    Stopped,
    TurnOutcome,
)
from agency.wire import sayable, sayable_text

log = logging.getLogger(__name__)

Given = ParamSpec("Given")
Result = TypeVar("Result")

Hook = Literal[
    "on_init",
    "on_run_start",
    "on_run_end",
    "on_tick",
    "on_turn_end",
    "before_model",
    "on_overflow",
    "on_model_result",
    "gate_tool",
    "on_tool_start",
    "on_tool_result",
    "on_tool_error",
    "on_resume",
    "on_child_report",
    "on_timer",
    "state",
]


@dataclass(slots=True)
class Review:
    """What the middleware made of a reply: the calls that a person has to approve, those that are refused, and who has
    looked at it."""

    ask: dict[str, Ask] = field(default_factory=dict)
    refused: dict[str, Settled] = field(default_factory=dict)
    seen_by: list[str] = field(default_factory=list)


class Pipeline:
    def __init__(
        self,
        middleware: Sequence[tuple[AnyMiddleware, Any]],
        tools: Sequence[Tool],
        thread: ThreadMetadata,
        blueprint: Blueprint,
        agents: Mapping[str, Blueprint],
        policy: Callable[[], Policy],
        shelves: Callable[[], ShelfStore],
        process: ProcessOpenings,
        check_secret: CheckSecret,
        file_limits: FileLimits = FILE_LIMITS,
    ) -> None:
        """`middleware` come with their validated configuration, `tools` are those that the agent's tags select,
        `policy` is what the agency wants to be asked about, as it is now, `shelves` what outlives its threads."""
        self._configs = {mw.name: config for mw, config in middleware}
        self.lookups = Lookups(blueprint, {mw.name: mw for mw, _ in middleware}, check_secret)
        self._secrets = {mw.name: self.lookups.of_middleware(mw, config) for mw, config in middleware}
        self._registrars = {mw.name: functools.partial(self._register, mw) for mw, _ in middleware}
        self._owners: dict[str, str] = {}  # of the tools that middleware have registered
        self._told: set[tuple[str, str]] = set()  # of which middleware each run was told that it is not open
        self._by_hook = {hook: [mw for mw, _ in middleware if _defines(mw, hook)] for hook in Hook.__args__}  # type: ignore[attr-defined]  # a Literal's values
        self.middleware = tuple(mw for mw, _ in middleware)
        self._shapes_calls = any(self._by_hook[hook] for hook in ("on_run_start", "on_tick", "before_model"))
        self.ends_turns, self.sees_runs_start = bool(self._by_hook["on_turn_end"]), bool(self._by_hook["on_run_start"])
        self.sees_runs_end = bool(self._by_hook["on_run_end"])
        self.options = NO_OPTIONS  # those of the run
        self._defaults = {mw.name: mw.options_model() for mw, _ in middleware if mw.options_model is not None}
        self._options: Mapping[str, BaseModel] = self._defaults
        self._policy, self._shelves, self._file_limits = policy, shelves, file_limits
        self._thread, self._blueprint, self._agents = thread, blueprint, agents
        self.asks: AsksModels = AsksNothing()
        """What hooks ask models by; the driver sets it."""
        self.tools = {tool.name: tool for tool in tools}
        self._given = frozenset(self.tools)
        self.risk = RiskWatch(middleware, blueprint, self.tools, policy)
        self.provided: Provided = ProvidesNothing()
        """What tools and hooks get as `ctx.deps`."""
        self._process = process
        self._openings = ThreadOpenings(self.middleware, process, self._on_thread_open, self._on_thread_close)

    @property
    def agent(self) -> str:
        return self._blueprint.name

    def owner_of(self, tool: str) -> str | None:
        """The middleware that has registered a tool, if one has."""
        return self._owners.get(tool)

    def type_of(self, tool: str) -> ToolType:
        """What kind of tool a name stands for."""
        known = self.tools.get(tool)
        if known is None:
            return "unknown"
        if tool not in self._given:
            return "middleware"
        return "function" if known.ray is None else "task"

    @property
    def shapes_calls(self) -> bool:
        """Whether middleware have a say in the next model call."""
        return self._shapes_calls or self._openings.waiting

    # What middleware keep open.

    async def provide(self) -> None:
        """Open what the system provides, if it is not open in this process."""
        self.provided = await self._process.provide()

    async def open(self, draft: Draft) -> None:
        """Let middleware open what they need, those that are not open yet. None of them keeps the thread shut."""
        if self._openings.waiting:
            await self._openings.open(draft)

    async def close(self) -> None:
        """Let middleware close what they have opened for this thread."""
        await self._openings.close()

    def unavailable(self, tool: str) -> str | None:
        """Why a tool is not available, if it is not: its middleware is not open."""
        problems = self._openings.problems
        if not problems or (tool in self.tools and self._owners.get(tool) not in problems):
            return None
        if tool in self.tools:
            return f"{tool} is not available now: {problems[self._owners[tool]]}"
        return f"no tool is named {tool!r} now; some are not available: {'; '.join(problems.values())}"

    def _leave_out_closed(self, draft: Draft, run_id: str, plan: Plan) -> None:
        """Do not offer the tools of middleware that are not open, and tell the model and people why."""
        for name, problem in self._openings.problems.items():
            tools = [tool for tool, owner in self._owners.items() if owner == name]
            for tool in tools:
                plan.remove_tool(tool)
            what = f"The tools {', '.join(tools)} are" if tools else f"What {name} provides is"
            plan.add_prompt(f"{what} not available now: {problem}. It is tried again later.")
            plan.credit(name)
            if (run_id, name) not in self._told:
                self._told.add((run_id, name))
                draft.warn(UNAVAILABLE, f"{what} not available now: {problem}")

    async def _on_thread_open(self, mw: AnyMiddleware, draft: Draft) -> None:
        there = set(self.tools)
        try:
            await run_hook("on_thread_open", mw.on_thread_open, self.context(mw, draft, None))
        except BaseException:
            for name in self.tools.keys() - there:  # it registers them again when it is tried again
                del self.tools[name], self._owners[name]
            raise

    async def _on_thread_close(self, mw: AnyMiddleware) -> None:
        await mw.on_thread_close(self._thread)

    # The options of a run.

    def use_options(self, options: RunOptions) -> list[str]:
        """From now on, the run has these. They were checked when they were given, but the code may have changed since:
        what a middleware no longer takes is returned, and the middleware has its defaults."""
        self.options, self._options = options, self._defaults
        wrong: list[str] = []
        for mw in self.middleware if options.options else ():
            try:
                self._options = {**self._options, **given_to([mw], options)}
            except InvalidInput as error:
                wrong.append(str(error))
        return wrong

    def check_tools(self, wanted: ToolFilter) -> None:
        """Refuse names that no tool has. While a middleware is not open, its tools may not be known."""
        if not self._openings.problems:
            wanted.check(self.tools)

    def run_tools(self) -> Mapping[str, Tool]:
        """The tools that the run has."""
        admitted = self.options.tools
        if admitted is None:
            return self.tools
        return {name: tool for name, tool in self.tools.items() if admitted.admits(name)}

    # The hooks.

    async def on_init(self, draft: Draft) -> None:
        for mw in self._by_hook["on_init"]:
            try:
                await run_hook("on_init", mw.on_init, self.context(mw, draft, None))
            except HookFailed as error:
                if isinstance(error.__cause__, DefinitionError):
                    raise error.__cause__ from None
                raise

    async def on_run_start(self, draft: Draft, run_id: str) -> None:
        for mw in self._by_hook["on_run_start"]:
            await run_hook("on_run_start", mw.on_run_start, self.context(mw, draft, run_id))

    async def on_run_end(self, draft: Draft, run: RunEnd) -> None:
        """Tell the middleware that a run has ended. One that fails is logged, and what it wrote is left out."""
        for mw in self._by_hook["on_run_end"]:
            mark = draft.mark()
            try:
                await run_hook("on_run_end", mw.on_run_end, self.context(mw, draft, run.run_id), run)
            except HookFailed as error:
                draft.undo(mark)
                log.warning("hook on_run_end failed for run %s: %s", run.run_id, error)

    async def on_turn_end(self, draft: Draft, run_id: str) -> TurnOutcome | None:
        """How the run ends here, if one of the middleware says so; the first one counts."""
        for mw in self._by_hook["on_turn_end"]:
            match await run_hook("on_turn_end", mw.on_turn_end, self.context(mw, draft, run_id)):
                case Finish(value=value):
                    return Finished(by="middleware", value=free_of_secrets(sayable(value)))
                case Fail(message=message):
                    said = f"{mw.name}: {without_secrets(sayable_text(message))}"
                    return Stopped(reason="middleware_abort", code="ERR_STOPPED", message=said)
        return None

    async def plan(self, draft: Draft, run_id: str, plan: Plan) -> None:
        """Let the middleware begin the turn and shape the model call."""
        plan.credit(None)
        if self._openings.waiting:
            self._leave_out_closed(draft, run_id, plan)
        for mw in self._by_hook["on_tick"]:
            await run_hook("on_tick", mw.on_tick, self.context(mw, draft, run_id))
        for mw in self._by_hook["before_model"]:
            await run_hook("before_model", mw.before_model, self.context(mw, draft, run_id), plan)
            plan.credit(mw.name)
            draft.emit(events.before_model(mw.name))

    async def on_overflow(self, draft: Draft, run_id: str, plan: Plan) -> bool:
        """Let the middleware make room; whether one of them has."""
        made = [
            await run_hook("on_overflow", mw.on_overflow, self.context(mw, draft, run_id), plan)
            for mw in self._by_hook["on_overflow"]
        ]
        return any(made)

    async def on_model_result(self, draft: Draft, run_id: str, reply: ModelReply, review: Review) -> None:
        for mw in self._by_hook["on_model_result"]:
            context = self.context(mw, draft, run_id)
            context.ask = functools.partial(_ask, review, reply)
            await run_hook("on_model_result", mw.on_model_result, context, reply)
            review.seen_by.append(mw.name)
        for mw in self._by_hook["gate_tool"]:
            for call in reply.tool_calls:
                gate = await run_hook("gate_tool", mw.gate_tool, self.context(mw, draft, run_id), call)
                if isinstance(gate, Deny):
                    because = f": {without_secrets(sayable_text(gate.reason))}" if gate.reason else ""
                    refusal = f"{mw.name} refused this call, it was not run{because}"
                    review.refused[call.id] = Failure(kind="permission_denied", source="middleware", message=refusal)
                elif isinstance(gate, Ask):
                    review.ask.setdefault(call.id, replace(gate, note=without_secrets(gate.note)))
        self.risk.ask(reply, review.ask, review.refused)
        self._ask_for_agency(reply, review)
        always, there = (always_approved(draft), self.run_tools()) if review.ask else ((), {})
        for call in reply.tool_calls if review.ask else ():
            if call.name in always or call.name not in there:  # what does not exist fails by itself
                review.ask.pop(call.id, None)

    def _ask_for_agency(self, reply: ModelReply, review: Review) -> None:
        """An agency's policy holds for all its agents, also for those without the middleware that asks. For the calls
        that it is about, it alone decides what happens if no person decides."""
        policy = self._policy()
        for call in reply.tool_calls if policy.rules else ():
            if (wanted := policy.asks(call, self.tools.get(call.name))) is not None:
                asked = review.ask.get(call.id)
                review.ask[call.id] = replace(wanted, note="" if asked is None else asked.note)

    async def on_tool_start(self, draft: Draft, run_id: str, call: ToolCall) -> None:
        for mw in self._by_hook["on_tool_start"]:
            await run_hook("on_tool_start", mw.on_tool_start, self.context(mw, draft, run_id), call)

    async def on_tool_result(self, draft: Draft, run_id: str, call: ToolCall, result: str) -> None:
        for mw in self._by_hook["on_tool_result"]:
            await run_hook("on_tool_result", mw.on_tool_result, self.context(mw, draft, run_id), call, result)

    async def on_tool_error(self, draft: Draft, run_id: str, call: ToolCall, error: str) -> None:
        for mw in self._by_hook["on_tool_error"]:
            await run_hook("on_tool_error", mw.on_tool_error, self.context(mw, draft, run_id), call, error)

    async def on_resume(self, draft: Draft, run_id: str, reason: str, decisions: Mapping[str, Decision]) -> None:
        for mw in self._by_hook["on_resume"]:
            await run_hook("on_resume", mw.on_resume, self.context(mw, draft, run_id), reason, decisions)

    async def on_child_report(self, draft: Draft, run_id: str, child: ChildReport) -> None:
        for mw in self._by_hook["on_child_report"]:
            await run_hook("on_child_report", mw.on_child_report, self.context(mw, draft, run_id), child)

    async def on_timer(self, draft: Draft, run_id: str | None, owner: str, name: str) -> None:
        """Tell a middleware that its timer is due, if it is still one of the agent's."""
        for mw in self._by_hook["on_timer"]:
            if mw.name == owner:
                await run_hook("on_timer", mw.on_timer, self.context(mw, draft, run_id), name)

    async def state(self, draft: Draft) -> dict[str, JsonValue]:
        merged: dict[str, JsonValue] = {}
        for mw in self._by_hook["state"]:
            merged.update(await run_hook("state", mw.state, self.context(mw, draft, None)))
        if problems := self._openings.problems:
            merged["unavailable"] = dict(problems)
        return {name: free_of_secrets(value) for name, value in merged.items()} if has_secrets() else merged

    def decision_ms(self) -> int | None:
        """How long a person has to decide on a call in doubt; None is any time."""
        said = (mw.decision_ms(self._configs[mw.name]) for mw in self.middleware)
        return next((each for each in said if each is not None), self._policy().timeout_ms)

    def context(self, mw: AnyMiddleware, draft: Draft, run_id: str | None = None) -> HookContext[Any, Any, Any]:
        """What a hook of this middleware gets; `run_id` is None outside of a run."""
        return HookContext(
            thread=self._thread,
            blueprint=self._blueprint,
            run_id=run_id,
            agents=self._agents,
            config=self._configs[mw.name],
            options=self._options.get(mw.name),
            store=draft,
            tools=self.tools,
            register_tool=self._registrars[mw.name],
            ask=_cannot_ask,
            policy=self._policy(),
            shelves=self._shelves,
            file_limits=self._file_limits,
            owner=mw.name,
            secrets=self._secrets[mw.name],
            asks=self.asks,
            provided=self.provided,
        )

    def _register(self, mw: AnyMiddleware, tool: Tool) -> None:
        if tool.name in self.tools:
            raise DefinitionError(f"agent {self._blueprint.name!r} would get two tools named {tool.name!r}")
        if tool.ray is not None:
            raise DefinitionError(f"a middleware's tool cannot have `ray` options; add {tool.name!r} with add_tool")
        if mw.registers is not None and tool.name not in mw.registers:
            raise DefinitionError(
                f"middleware {mw.name!r} registers {tool.name!r}: its `registers` must name that, too"
            )
        if undeclared := declared_by(tool).references - self._secrets[mw.name].references:
            named = ", ".join(sorted(undeclared))
            raise DefinitionError(f"{tool.name!r} needs {named}: middleware {mw.name!r} must declare that, too")
        self.tools[tool.name] = tool
        self._owners[tool.name] = mw.name


async def run_hook(
    name: str,
    hook: Callable[Concatenate[HookContext[Any, Any, Any], Given], Awaitable[Result]],
    ctx: HookContext[Any, Any, Any],
    *args: Given.args,
    **kwargs: Given.kwargs,
) -> Result:
    """What the hook returns. If it fails, or writes what the database refuses, `HookFailed` names it."""
    mark = ctx.store.mark()
    ctx.hook = f"{name}.{args[0].id}" if args and isinstance(args[0], ToolCall) else name
    try:
        with Doing(ctx.thread, ctx.run_id or "", "hook", f"hook {name} of middleware {ctx.owner}", ctx.store):
            result = await hook(ctx, *args, **kwargs)
        ctx.store.remove_secrets(mark)
        ctx.store.try_out(mark)
    except BaseException as error:
        if is_ours(error):
            raise
        failed = HookFailed(ctx.owner, name, what_failed(error))
        if is_unexpected(error):
            failed.stack = stack_of(error)
            log_failure(log, f"middleware {ctx.owner} failed in {name} of thread {ctx.thread.id}", error)
        raise failed from error
    return result


def _defines(mw: AnyMiddleware, hook: str) -> bool:
    return getattr(type(mw), hook) is not getattr(Middleware, hook)


def _ask(
    review: Review,
    reply: ModelReply,
    call_id: str,
    *,
    risk: Risk | None = None,
    note: str = "",
    timeout_ms: int | None = None,
    on_timeout: OnTimeout = "deny",
) -> None:
    if call_id not in {call.id for call in reply.tool_calls}:
        raise AgencyError(f"ctx.ask: the reply has no call {call_id!r}")
    said = without_secrets(sayable_text(note))
    review.ask[call_id] = Ask(risk=risk, note=said, timeout_ms=timeout_ms, on_timeout=on_timeout)


def _cannot_ask(
    call_id: str,
    *,
    risk: Risk | None = None,
    note: str = "",
    timeout_ms: int | None = None,
    on_timeout: OnTimeout = "deny",
) -> None:
    raise AgencyError("ctx.ask belongs in on_model_result")
