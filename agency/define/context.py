"""What a tool gets to see and do. It writes through `store`: staged, and committed with its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, cast

from pydantic import JsonValue
from typing_extensions import TypeVar, Unpack

from agency.children import outbox, rows
from agency.children.family import cancel_child
from agency.children.parcels import THREAD_ID, Note, Spawn, child_id
from agency.clock import now_ms
from agency.define.asides import Aside, AsksModels, AsksNothing, Place, model_of, question_of
from agency.define.blueprint import Blueprint, ModelChoice
from agency.define.file_limits import FILE_LIMITS, FileLimits
from agency.define.options import NO_OPTIONS, RunOptionFields, RunOptions, as_options
from agency.define.output import OutputType
from agency.define.outside import IssuesNone, IssuesTokens, OutsideWait
from agency.define.provided import Provided, ProvidesNothing
from agency.errors import ToolError
from agency.events import subagent_spawned
from agency.messages import MESSAGE_CHARS, Message
from agency.metadata import ParentInfo, ThreadMetadata
from agency.models.interface import ModelParams
from agency.secrets import Declared, NoSecret
from agency.shelves.interface import ShelfStore
from agency.shelves.shelf import Shelf
from agency.store.draft import Draft
from agency.store.timers import set_timer
from agency.turn.outcomes import Deferred, WaitsFor

Deps = TypeVar("Deps", default=None)


@dataclass(slots=True)
class ToolContext(Generic[Deps]):
    """The call that a tool is running for. `ToolContext[Deps]` says of what type the system's `deps` are.

    `idempotency_key` names this call for ever: it is the same when the call is retried or runs again after a crash.
    `blueprint` is the agent's own, and `config` is in it.
    """

    thread: ThreadMetadata
    run_id: str
    call_id: str
    idempotency_key: str
    attempt: int
    blueprint: Blueprint
    agents: Mapping[str, Blueprint]
    """Every agent that can be started here."""
    store: Draft
    shelves: ShelfStore
    """The agency's; see `shelf`."""
    effect: int
    token: str
    secrets: Declared
    """Where the tool's secrets are. The values are nowhere in here: a context is sent to other processes."""
    place: Place
    asks: AsksModels = field(default_factory=AsksNothing)
    options: RunOptions = NO_OPTIONS
    """Those of the run."""
    tokens: IssuesTokens = field(default_factory=IssuesNone)
    starting: set[str] = field(default_factory=set)
    """The children that calls which run just now have started."""
    returned_files: dict[str, str | bytes] = field(default_factory=dict)
    """What came with the call's `ToolResult`; the agent keeps it, if it keeps files."""
    spawned: bool = False
    deferred: set[WaitsFor] = field(default_factory=set)
    """What the call may wait for, by what the tool has asked of this context."""
    sent: int = 0
    traceback: str = ""
    """Of what the tool has raised; people who may see it do."""
    provided: Provided = field(default_factory=ProvidesNothing)
    """See `deps`."""
    file_limits: FileLimits = FILE_LIMITS
    """What the files of the thread may take."""

    @property
    def deps(self) -> Deps:
        """What the system provides, by `AgentSystem.provide`."""
        return cast(Deps, self.provided.get())

    @property
    def config(self) -> Mapping[str, JsonValue]:
        return self.blueprint.config

    def shelf(self, name: str) -> Shelf:
        """A shelf of the thread's agency: bytes by path, which outlive the thread and are shared by all threads of the
        agency. What is written there is written at once, not with the call's result; a call that runs again after a
        crash makes the same writes once more, and they change nothing."""
        return Shelf.of(self.shelves, name, self.idempotency_key)

    def secret(self, name: str) -> str:
        """The value, now, of a secret that the tool declares. It is taken out of the call's result, and of all else
        that the tool says."""
        try:
            return self.secrets.value(name)
        except NoSecret as error:
            raise ToolError(str(error), kind="unavailable") from None

    async def ask_model(
        self,
        asked: str | Message | Sequence[Message],
        *,
        system: str = "",
        model: str | Sequence[str | ModelChoice] | None = None,
        params: ModelParams | None = None,
        output: OutputType | None = None,
    ) -> Aside:
        """Ask a model aside; the call's result is still yours to return.

        Without a `model`, the agent's own are asked, in their order. `output`, a pydantic model or a JSON schema, is
        what the answer's `value` must fit. The answer is charged to the run and recorded before you get it: when this
        call runs again after a crash, the same question gets the same answer. Raises `ModelError` if no model
        answers, or if a limit of the run or the agency's budget is used up.
        """
        question = question_of(asked, system=system, model=model, params=params, output=output)
        return await self.asks.ask(self.place, question, model_of(output))

    async def wait_outside(self, about: str, *, timeout_ms: int) -> OutsideWait:
        """Have this call wait for something outside, which settles it by the wait's `token`: `Thread.settle`, or a
        request to the gateway. The tool hands the token out, and returns what this returns.

        `about` says for what, to people; after `timeout_ms` the call fails as timed out. The token is on disk before
        you get it, so what settles it at once is in time. It is a secret: put it into no result, message or log.
        """
        self.deferred.add("outside")
        return await self.tokens.issue(self.store.run, self.effect, self.call_id, about, timeout_ms)

    def spawn(
        self,
        agent: str | Blueprint,
        message: str,
        *,
        timeout_ms: int | None = None,
        files: Mapping[str, str] | None = None,
        returns: Sequence[str] = (),
        **options: Unpack[RunOptionFields],
    ) -> Deferred:
        """Start a child thread whose report becomes the result of this call. The tool returns what this returns.

        `agent` is one of `agents`, by its name, or a blueprint that the child brings with it. The child is handed the
        `files` and hands back those that are named in `returns`. Its run has these `options`, within what this run has:
        it gets no tool that was denied here, and middleware get what they were given here.

        The waiter, the timer and the order to start the child are committed together, so the waiter is there before the
        child, and the child's id follows from the call, so that a repeated call makes no second one.
        """
        self._start(agent, message, timeout_ms, files, returns, as_options(options), background=False)
        self.deferred.add("child")
        return Deferred(waits_for="child")

    def spawn_in_background(
        self,
        agent: str | Blueprint,
        message: str,
        *,
        timeout_ms: int | None = None,
        files: Mapping[str, str] | None = None,
        returns: Sequence[str] = (),
        **options: Unpack[RunOptionFields],
    ) -> str:
        """Start a child thread and go on; its id. When it ends, the conversation gets a note, unless a call waits for
        it (`wait_for`). It lives as long as its parent has a use for it: it is canceled when the parent is
        canceled, fails, or has reported to a parent of its own."""
        return self._start(agent, message, timeout_ms, files, returns, as_options(options), background=True)

    def warn(self, kind: str, message: str) -> None:
        """Tell the run's owner of something that the run survives: as the event `runtime.warning`, and in the run's
        `meta.warnings`, once the call has succeeded. `kind` is a stable word, such as `cache_lost`."""
        self.store.warn(kind, message)

    def children(self) -> list[rows.Child]:
        """The threads that this one has started, oldest first."""
        return rows.children(self.store)

    def at_work(self) -> int:
        """How many children are at work, those included that other calls are just starting."""
        return len(self.starting.union(child.token for child in self.children() if child.status == "waiting"))

    def wait_for(self, children: Sequence[str], *, timeout_ms: int | None = None) -> Deferred:
        """Wait until these children, which work in the background, have all ended, or the time is over. The tool
        returns what this returns; the result of the call is then what has come of each."""
        tokens = tuple(child.token for child in self._known(children))
        wait = rows.Wait(self.store.run, self.effect, self.call_id, tokens)
        rows.add_wait(self.store, wait)
        if timeout_ms is not None:
            set_timer(self.store, wait.timer, now_ms() + timeout_ms)
        self.deferred.add("child")
        return Deferred(waits_for="child")

    def cancel_child(self, child_thread_id: str) -> None:
        """Call back a child that works in the background."""
        (child,) = self._known([child_thread_id])
        if child.status == "waiting":
            cancel_child(self.store, child)

    def _known(self, children: Sequence[str]) -> list[rows.Child]:
        known = {child.thread: child for child in self.children() if child.background}
        if unknown := [name for name in children if name not in known]:
            there = ", ".join(known) or "none"
            raise ToolError(
                f"there is no background task {unknown[0]!r:.100}; there are: {there}", kind="invalid_request"
            )
        return [known[name] for name in children]

    def send(self, to: str, text: str) -> None:
        """Say something to another agent of the family: it joins that agent's run at its next turn.

        `to` is `parent`, a child's thread id, or that of another child of the same parent.
        """
        parent = self.thread.parent
        if to == "parent" and parent is None:
            raise ToolError("you have no parent", kind="invalid_request")
        if to == self.thread.id or not THREAD_ID.fullmatch(to):
            raise ToolError(f"{to!r:.100} is no other agent", kind="invalid_request")
        if not text.strip() or len(text) > MESSAGE_CHARS:
            raise ToolError(f"a message has 1 to {MESSAGE_CHARS} characters", kind="invalid_request")
        for child in self.children():
            if child.thread == to and child.status != "waiting":
                raise ToolError(f"{to} has ended: {child.status}", kind="invalid_request")
        note = Note(
            to=parent.thread_id if to == "parent" and parent is not None else to,
            sender=self.thread.id,
            agent_type=self.thread.agent_type,
            family=self.thread.family,
            text=text,
            key=f"{self.idempotency_key}.{self.sent}",
        )
        outbox.send(self.store, note)
        self.sent += 1

    def _own(self, agent: Blueprint) -> Blueprint:
        """An agent that was defined inside of this one is as old as this one (see `agency.define.safety`)."""
        if agent.unattended is not None or self.blueprint.unattended is None:
            return agent
        return agent.model_copy(update={"unattended": False})

    def _start(
        self,
        agent: str | Blueprint,
        message: str,
        timeout_ms: int | None,
        files: Mapping[str, str] | None,
        returns: Sequence[str],
        options: RunOptions,
        *,
        background: bool,
    ) -> str:
        if self.spawned:
            raise ToolError("a call can start one child", kind="invalid_request")
        if not message.strip() or len(message) > MESSAGE_CHARS:
            raise ToolError(f"a child's message has 1 to {MESSAGE_CHARS} characters", kind="invalid_request")
        now, child = now_ms(), child_id(self.thread.id, self.token)
        own = self._own(agent).model_dump(mode="json") if isinstance(agent, Blueprint) else None
        agent_type = agent.name if isinstance(agent, Blueprint) else agent
        waiter = rows.Child(
            background=int(background),
            token=self.token,
            thread=child,
            agent_type=agent_type,
            run=self.store.run,
            effect=self.effect,
            call=self.call_id,
            status="waiting",
            report=None,
            created_at=now,
            completed_at=None,
        )
        rows.add_child(self.store, waiter)
        if timeout_ms is not None:
            set_timer(self.store, waiter.timer, now + timeout_ms)
        handed = self.options.handed_down(options, to_copy=agent_type == self.thread.agent_type)
        order = Spawn(
            to=child,
            agent_type=agent_type,
            message=message,
            agency_id=self.thread.agency_id,
            request=self.thread.request,
            parent=ParentInfo(
                thread_id=self.thread.id,
                token=self.token,
                root=self.thread.family,
                depth=self.thread.depth + 1,
                returns=tuple(returns),
            ),
            files=dict(files or {}),
            blueprint=own,
            options={} if handed == NO_OPTIONS else handed.model_dump(mode="json", exclude_defaults=True),
        )
        outbox.send(self.store, order)
        self.store.emit(subagent_spawned(child, agent_type, self.call_id, background=background))
        self.starting.add(self.token)
        self.spawned = True
        return child
