"""Middleware: capabilities that hook into a thread's run.

A middleware has a `name`, `tags` that decide which agents get it, and any of the hooks below. Hooks run in the order
in which the middleware were registered. What a hook writes through `ctx.store` is committed in one
transaction with what it reacts to. A hook that raises ends the run with ERR_HOOK under its own name; it is never taken
for a failure of the model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, Protocol, cast

from pydantic import BaseModel, JsonValue, ValidationError
from typing_extensions import TypeVar

from agency.approvals.rules import Policy
from agency.children import rows
from agency.define.asides import Aside, AsksModels, Place, model_of, question_of
from agency.define.blueprint import Blueprint, ModelChoice
from agency.define.file_limits import FILE_LIMITS, FileLimits
from agency.define.hook_timers import HookTimers
from agency.define.options import RunOptions
from agency.define.output import OutputType
from agency.define.provided import Provided, ProvidesNothing
from agency.define.tools import Tool
from agency.errors import InvalidInput
from agency.messages import Message, ToolCall
from agency.metadata import ThreadMetadata
from agency.models.interface import Capability, ModelParams, PromptPart, Surface
from agency.secrets import Declared, Secret, without_secrets
from agency.shelves.interface import ShelfStore
from agency.shelves.shelf import Shelf
from agency.store.draft import Draft
from agency.turn.effects import Ask, ModelReply
from agency.turn.outcomes import Decision, Deny, Fail, Finish, OnTimeout, Risk
from agency.turn.state import RunStatus
from agency.wire import Wire, explain, sayable_text

Config = TypeVar("Config", default=None)
Options = TypeVar("Options", default=None)
Deps = TypeVar("Deps", default=None)


@dataclass(slots=True)
class HookContext(Generic[Config, Options, Deps]):
    """The thread that a hook is running for. `config` is the middleware's own section of the blueprint's configuration,
    `options` are those that the caller gave it for this run, both validated."""

    thread: ThreadMetadata
    blueprint: Blueprint
    run_id: str | None
    agents: Mapping[str, Blueprint]
    """Every agent that can be started here."""
    config: Config
    options: Options
    store: Draft
    tools: Mapping[str, Tool]
    """Every tool that the agent has."""
    register_tool: Callable[[Tool], None]
    """Give the agent one more tool; in `on_init`."""
    ask: Asking
    """Have a person approve this call before its batch runs; in `on_model_result`."""
    policy: Policy
    """What the agency wants to be asked about."""
    shelves: Callable[[], ShelfStore]
    """The agency's; see `shelf`."""
    owner: str
    secrets: Declared
    """Where the middleware's secrets are."""
    asks: AsksModels
    hook: str = ""
    """The hook that is running, and the call that it is about."""
    place: Place | None = None
    """Where it asks models from, once it has."""
    provided: Provided = field(default_factory=ProvidesNothing)
    """See `deps`."""
    file_limits: FileLimits = FILE_LIMITS
    """What the files of the thread may take."""

    @property
    def deps(self) -> Deps:
        """What the system provides, by `AgentSystem.provide`."""
        return cast(Deps, self.provided.get())

    def secret(self, name: str) -> str:
        """The value, now, of a secret that the middleware declares, by its name, or that its configuration refers to.
        It is taken out of whatever the middleware says."""
        return self.secrets.value(name)

    async def ask_model(
        self,
        asked: str | Message | Sequence[Message],
        *,
        system: str = "",
        model: str | Sequence[str | ModelChoice] | None = None,
        params: ModelParams | None = None,
        output: OutputType | None = None,
    ) -> Aside:
        """Ask a model aside, as `ToolContext.ask_model` does, in any hook that runs while a run is in progress.

        The answer is recorded under the turn, the middleware and the hook: when the hook runs again for the same turn,
        the same question gets the same answer. In `before_model` and what comes before it, a limit that is used up
        pauses the run; elsewhere catch `ModelError` if the hook can do without the answer.
        """
        question = question_of(asked, system=system, model=model, params=params, output=output)
        if self.place is None:
            self.place = Place(f"{self.owner}.{self.hook}", self.owner)
        return await self.asks.ask(self.place, question, model_of(output))

    def shelf(self, name: str) -> Shelf:
        """A shelf of the thread's agency: bytes by path, which outlive the thread and are shared by all threads of the
        agency. What is written there is written at once, not with what the hook reacts to; a hook that runs again
        after a crash makes the same writes once more, and they change nothing."""
        return Shelf.of(self.shelves(), name, f"{self.thread.id}.{self.run_id or ''}.{self.owner}")

    @property
    def timers(self) -> HookTimers:
        """The middleware's own timers: `set(name, at)`, `cancel(name)`. When one is due, `on_timer` is called."""
        return HookTimers(self.store, self.owner)

    def children(self) -> list[ChildLink]:
        """The threads that this one has started, oldest first."""
        return [_link(child) for child in rows.children(self.store)]

    def messages(self, after: int = 0, upto: int | None = None) -> list[Message]:
        """The thread's messages behind the first `after`, up to the number `upto`."""
        last = sys.maxsize if upto is None else upto
        rows = self.store.query("SELECT body FROM messages WHERE seq > ? AND seq <= ? ORDER BY seq", (after, last))
        return [Message.model_validate_json(str(body)) for (body,) in rows]

    def warn(self, kind: str, message: str) -> None:
        """Tell the run's owner of something that the run survives: as the event `runtime.warning`, and in the run's
        `meta.warnings`. `kind` is a stable word, such as `cache_lost`."""
        self.store.warn(kind, message)

    def set_title(self, title: str) -> None:
        """Give the thread a title, in the place of the beginning of its first message. Lists, the inbox and search
        show it. What a person has named the thread stands before it."""
        self.store.set_title(title)

    def inject(
        self, role: Literal["user", "system"], content: str, *, transient: bool = False, next_run: bool = False
    ) -> None:
        """Add a user or system message; it joins the conversation at the next checkpoint of a run. With `next_run` it
        starts a run, now or after the one in progress; not in a child, whose runs only callers start."""
        if role not in ("user", "system"):
            raise ValueError(f"a hook adds user or system messages, not {role}")
        said = sayable_text(content)
        message = Message(role=role, content=said, origin=self.owner, transient=transient)
        self.store.post(message, "next_run" if next_run else "next_step")


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """The process that a middleware is opened in."""

    secrets: Declared

    def secret(self, name: str) -> str:
        """The value, now, of a secret that the middleware declares."""
        return self.secrets.value(name)


class Asking(Protocol):
    """Have a person approve a call: why, how long there is for that, and what happens if no decision comes in that
    time."""

    def __call__(
        self,
        call_id: str,
        *,
        risk: Risk | None = None,
        note: str = "",
        timeout_ms: int | None = None,
        on_timeout: OnTimeout = "deny",
    ) -> None: ...


class ChildLink(Wire):
    """A child thread as its parent knows it. Times are in milliseconds."""

    child_thread_id: str
    agent_type: str
    token: str
    status: str
    tool_call_id: str
    created_at: int
    completed_at: int | None
    report: str | None
    background: bool = False


def _link(child: rows.Child) -> ChildLink:
    return ChildLink(
        child_thread_id=child.thread,
        agent_type=child.agent_type,
        token=child.token,
        status=child.status,
        tool_call_id=child.call,
        created_at=child.created_at,
        completed_at=child.completed_at,
        report=child.report,
        background=bool(child.background),
    )


class ChildReport(Wire):
    """What a child thread that ended says to its parent."""

    thread_id: str
    token: str
    status: str
    report: str


class RunEnd(Wire):
    """How a run has ended; `code` and `message` are those of its failure, if it failed."""

    run_id: str
    status: RunStatus
    result: JsonValue
    code: str | None = None
    message: str = ""


@dataclass
class Plan:
    """The next model call as `before_model` may still change it. `model` is one, or a chain of them."""

    model: str | Sequence[str | ModelChoice]
    tools: Mapping[str, Tool]
    messages: int = 0
    """How many the thread holds."""
    system: list[str] = field(default_factory=list)
    params: ModelParams = ModelParams()
    forgotten: int = 0
    note: str = ""
    _credited: list[tuple[str, str | None]] = field(default_factory=list, repr=False)
    """The parts of the prompt, each with the middleware that added it."""

    def add_prompt(self, text: str) -> None:
        """Add text to the system prompt of this model call."""
        if not isinstance(text, str):
            raise TypeError(f"a prompt is text, not {text!r}")
        self.system.append(without_secrets(sayable_text(text)))

    def remove_tool(self, name: str) -> None:
        """Do not offer a tool this time; if the model calls it all the same, it does not run."""
        self.tools = {known: tool for known, tool in self.tools.items() if known != name}

    def forget(self, messages: int, note: str) -> None:
        """Leave the first so many messages of the thread out of the request, and say this instead."""
        if not 0 <= messages <= self.messages:
            raise ValueError(f"of {self.messages} messages, {messages} cannot be left out")
        self.forgotten, self.note = messages, without_secrets(sayable_text(note))

    def credit(self, middleware: str | None) -> None:
        """What the prompt has that it had not at the last time is of this middleware; None is the agent itself."""
        if self.system != [text for text, _ in self._credited]:
            known = dict(self._credited)
            self._credited = [(text, known.get(text, middleware)) for text in self.system]

    def surface(
        self,
        chain: Sequence[str],
        skipped: Sequence[str],
        output: dict[str, JsonValue] | None,
        able: Mapping[str, tuple[Capability, ...]],
    ) -> Surface:
        """The call, with the models of the chain that can do what is required, what they are able to do, and those that
        cannot."""
        self.credit(None)
        return Surface(
            model=chain[0],
            fallbacks=tuple(chain[1:]),
            skipped=tuple(skipped),
            prompt=tuple(PromptPart(by=by, text=text) for text, by in self._credited),
            tools=tuple(tool.spec for tool in self.tools.values()),
            params=self.params,
            output=output,
            forgotten=self.forgotten,
            note=self.note,
            able=dict(able),
        )


class Middleware(Generic[Config, Options, Deps]):
    """Subclass it and define the hooks you need; the others cost nothing.

    `config_model` describes the middleware's section of a blueprint's `config`, `options_model` what callers may give
    it for one run; each of its fields has a default, for runs without. `tables` are the statements that make its own
    tables in the thread's file, one after the other; released ones are never edited, new ones are appended.
    Forks have them as they were, whatever was written to them; of virtual tables, as they are.

    `secrets` are those that it and its tools need, as in `{"key": secret("env:SHOP_KEY")}`; fields of the configuration
    that are a `Secret` name more. Hooks get a value by `ctx.secret("key")` or `ctx.secret(ctx.config.key)`.

    `guards_risk` says that it has a person asked before calls of medium and high risk: agents with tools of such risk
    need one that does, for each of them (`guards`). `registers` are the names of the tools that it may register; left
    out, they are not known before a thread is open, and names of tools in configurations are not checked before that.

    One that keeps the agent's files is a `FileKeeper`, too.
    """

    name: ClassVar[str]
    tags: ClassVar[tuple[str, ...]] = ()
    config_model: ClassVar[type[BaseModel] | None] = None
    options_model: ClassVar[type[BaseModel] | None] = None
    tables: ClassVar[tuple[str, ...]] = ()
    secrets: Mapping[str, Secret] = MappingProxyType({})
    guards_risk: ClassVar[bool] = False
    registers: ClassVar[tuple[str, ...] | None] = None

    async def on_process_open(self, ctx: ProcessContext) -> None:
        """The first thread of this process that has this middleware is being opened: the place to open what all of them
        share, and to keep it on `self`. If this raises, or takes longer than 5 seconds, the middleware's tools are not
        available, and it is tried again later."""

    async def on_process_close(self) -> None:
        """The process is being stopped, and no thread is open any more; or `on_process_open` has failed. The place to
        close what that has opened. It gets 5 seconds, and is not called if the process is killed."""

    async def on_thread_open(self, ctx: HookContext[Config, Options, Deps]) -> None:
        """The thread was opened, in this process, after `on_init` and `on_process_open`: the place to open what belongs
        to this thread alone, and to register tools that are only known then. If this raises, or takes longer than 5
        seconds, the tools of the middleware are not available to this thread, and it is tried again later."""

    async def on_thread_close(self, thread: ThreadMetadata) -> None:
        """The thread leaves this process, or its `on_thread_open` has failed: the place to close what that has opened.
        It gets 5 seconds, and is not called if the process is killed."""

    async def on_init(self, ctx: HookContext[Config, Options, Deps]) -> None:
        """The thread was opened, in this process: the place to register tools. If this raises, it stays shut."""

    async def on_run_start(self, ctx: HookContext[Config, Options, Deps]) -> None:
        """A run begins: its messages are there, and no model has been asked."""

    async def on_run_end(self, ctx: HookContext[Config, Options, Deps], run: RunEnd) -> None:
        """A run has ended, however it has. That is on disk, and what this raises changes nothing: it is logged."""

    async def on_tick(self, ctx: HookContext[Config, Options, Deps]) -> None:
        """A turn begins."""

    async def on_turn_end(self, ctx: HookContext[Config, Options, Deps]) -> Finish | Fail | None:
        """A turn has ended: its calls have their results, or it was the answer. Return `Finish(value)` or
        `Fail(message)` to end the run here."""
        return None

    async def before_model(self, ctx: HookContext[Config, Options, Deps], plan: Plan) -> None:
        """The model is about to be called with `plan`."""

    async def on_overflow(self, ctx: HookContext[Config, Options, Deps], plan: Plan) -> bool:
        """The conversation is too long for the model, which was asked with `plan`. Return True if the next
        `before_model` will leave something out (`plan.forget`): then the model is asked again."""
        return False

    async def on_model_result(self, ctx: HookContext[Config, Options, Deps], reply: ModelReply) -> None:
        """The model has replied; nothing of the reply has been done yet. In code mode, also once for each call that
        the code makes, as a reply with that one call; asking for a person refuses it there."""

    async def gate_tool(self, ctx: HookContext[Config, Options, Deps], call: ToolCall) -> Deny | Ask | None:
        """The model wants to make a call. Return `Deny(reason)` to refuse it, which the model is told, or `Ask(…)` to
        have a person approve it first; nothing of its batch has run yet."""
        return None

    async def on_tool_start(self, ctx: HookContext[Config, Options, Deps], call: ToolCall) -> None:
        """A call is about to run. Raising fails the call, and it does not run."""

    async def on_tool_result(self, ctx: HookContext[Config, Options, Deps], call: ToolCall, result: str) -> None:
        """A call succeeded."""

    async def on_tool_error(self, ctx: HookContext[Config, Options, Deps], call: ToolCall, error: str) -> None:
        """A call failed."""

    async def on_resume(
        self, ctx: HookContext[Config, Options, Deps], reason: str, decisions: Mapping[str, Decision]
    ) -> None:
        """A person has decided, lifted a limit, or resumed a run that was paused by hand."""

    async def on_child_report(self, ctx: HookContext[Config, Options, Deps], child: ChildReport) -> None:
        """A child thread has reported."""

    async def on_timer(self, ctx: HookContext[Config, Options, Deps], name: str) -> None:
        """A timer that the middleware has set (`ctx.timers.set`) is due. This is called at least once, also after a
        restart: again, if the process dies before what this has staged is on disk. What it raises is logged."""

    def check(self, config: Config, agents: Mapping[str, object]) -> None:
        """Raise `DefinitionError` if the section does not fit the system; when the system is first used."""

    def check_tools(self, config: Config, tools: Collection[str]) -> None:
        """Raise `DefinitionError` if the section names tools that the agent does not have; where an agent is defined
        whose tools are all known by then."""

    def guards(self, config: Config, tool: str) -> bool:
        """Whether it has a person asked before calls of a tool that are of medium or high risk."""
        return self.guards_risk

    def decision_ms(self, config: Config) -> int | None:
        """How long a person has to decide on a call in doubt; None leaves that to the agency's policy."""
        return None

    def own_agents(self, config: Config) -> Sequence[Blueprint]:
        """The agents that the section itself defines. The system checks them like its own."""
        return ()

    async def state(self, ctx: HookContext[Config, Options, Deps]) -> dict[str, JsonValue]:
        """What to add to the thread's state for clients."""
        return {}


AnyMiddleware = Middleware[Any, Any, Any]  # each has its own types of configuration, options and dependencies


def given_to(middleware: Iterable[AnyMiddleware], options: RunOptions) -> dict[str, BaseModel]:
    """What each of the middleware is given, by name; those that it is not given for are left out."""
    found: dict[str, BaseModel] = {}
    for mw in middleware:
        if mw.options_model is not None and mw.name in options.options:
            try:
                found[mw.name] = mw.options_model.model_validate(options.options[mw.name])
            except ValidationError as error:
                raise InvalidInput(f"options.{mw.name}: {explain(error)}") from error
    return found


def check_taken(middleware: Iterable[AnyMiddleware], options: RunOptions) -> None:
    """Refuse options that none of the middleware takes."""
    takers = {mw.name for mw in middleware if mw.options_model is not None}
    if strange := options.options.keys() - takers:
        known = f"those that take options are {', '.join(sorted(takers))}" if takers else "none of them takes options"
        raise InvalidInput(f"options: the agent has no middleware {min(strange)!r} that takes options; {known}")
