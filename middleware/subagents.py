"""Subagents: `task` gives a piece of work to another agent, in a thread of its own, and waits for its report. The other
agent may be a copy of the one that asks: what it reads and tries on the way stays out of this conversation.

Several calls in one reply run in parallel. However the child ends, that is the result of the call. A task in the
background has no call that waits for it: a note says when it has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, JsonValue, Tag
from pydantic.alias_generators import to_camel

from agency import (
    Blueprint,
    Deferred,
    DefinitionError,
    HookContext,
    Middleware,
    Plan,
    Tool,
    ToolContext,
    ToolError,
    told,
    tool,
)
from middleware.filesystem import files_of

PROMPT = """\
Give self-contained pieces of work to other agents, or to copies of yourself, with `task`. They see nothing of this \
conversation: the description must say all they need and what to report; `files` are copied to them, `returnFiles` \
come back with the report. Call `task` several times in one reply to have them work in parallel. With `background`, \
you go on at once: a note tells you when such a task has ended, `check_tasks` what has come of them, `wait_for_tasks` \
waits, `cancel_task` calls one back. If another agent started you, end no run while background tasks work whose \
results you need: they end with it. `send_message` says something to an agent that is at work."""

COPY = "general-purpose"
"""How an agent may name a copy of itself, besides by its own name; unless an agent of the system is called so."""

LISTED_CHARS = 1_000
"""So much of an agent's description stands in the list of agents: each thread has that list, and each model call."""

Milliseconds = Annotated[int, Field(ge=1, lt=2**53)]


LISTED = frozenset({"source", "warnings", "unattendedTools", "createdAt", "updatedAt"})
"""What a list of blueprints says about one beside its definition."""


def _definition(given: object) -> object:
    """A blueprint may stand here as it is listed."""
    return {name: value for name, value in given.items() if name not in LISTED} if isinstance(given, dict) else given


Subagent = Annotated[
    Annotated[str, Tag("name")] | Annotated[Blueprint, BeforeValidator(_definition), Tag("blueprint")],
    Discriminator(lambda given: "name" if isinstance(given, str) else "blueprint"),
]
"""An agent by its name, or one that is defined here, for this agent only."""


class SubagentsConfig(BaseModel):
    """`subagents` are the agents that may be used, by name or as blueprints of their own; left out, they are every
    active agent and a copy of the agent itself. A thread may have so many children at work at once, and a family so
    many generations below the first thread."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    subagents: tuple[Subagent, ...] | None = None
    max_running: int = Field(default=20, ge=1)
    max_depth: int = Field(default=5, ge=1)


@tool(safe=True)
async def task(
    description: Annotated[str, Field(min_length=1, description="What to do and what to report.")],
    subagent_type: Annotated[str, Field(alias="subagentType", description="The agent to give it to.")],
    ctx: ToolContext,
    timeout_ms: Annotated[
        Milliseconds | None, Field(alias="timeoutMs", description="Stop the agent after this many milliseconds.")
    ] = None,
    background: Annotated[bool, Field(description="Go on without waiting for its report.")] = False,
    files: Annotated[tuple[str, ...], Field(description="Paths of your files that it gets a copy of.")] = (),
    return_files: Annotated[
        tuple[str, ...],
        Field(alias="returnFiles", description="Paths of its files that you get when it is done, in place of yours."),
    ] = (),
) -> Deferred | str:
    """Give a piece of work to another agent, or to a copy of yourself, and get its report."""
    section = SubagentsConfig.model_validate(ctx.config.get("subagents", {}))
    usable = _usable(section, ctx.agents, ctx.blueprint)
    if subagent_type not in usable:
        known = ", ".join(usable) or "none"
        raise ToolError(f"there is no agent {subagent_type!r} to use; there are: {known}", kind="invalid_request")
    _check_limits(section, ctx)
    handed, agent = _contents(ctx, files), usable[subagent_type]
    chosen = subagent_type if ctx.agents.get(subagent_type) is agent else agent
    if not background:
        return ctx.spawn(chosen, description, timeout_ms=timeout_ms, files=handed, returns=return_files)
    child = ctx.spawn_in_background(chosen, description, timeout_ms=timeout_ms, files=handed, returns=return_files)
    return f"Started task {child} in the background."


def _check_limits(section: SubagentsConfig, ctx: ToolContext) -> None:
    if ctx.thread.depth >= section.max_depth:
        message = f"agents may start agents {section.max_depth} deep, and you are at the end: do it yourself"
        raise ToolError(message, kind="resource_limit")
    running = ctx.at_work()
    if running >= section.max_running:
        message = f"{running} tasks are at work, which is the most there may be: wait for one to end"
        raise ToolError(message, kind="resource_limit")


def _contents(ctx: ToolContext, paths: Sequence[str]) -> dict[str, str]:
    """The files to hand down. An agent without a filesystem has none."""
    found = files_of(ctx.store, paths) if paths else {}
    if missing := [path for path in paths if path not in found]:
        raise ToolError(f"you have no text file {missing[0]!r:.200} to hand down", kind="invalid_request")
    return found


@tool(safe=True)
async def check_tasks(ctx: ToolContext) -> str:
    """See what has come of the tasks in the background."""
    return told([child for child in ctx.children() if child.background])


@tool(safe=True)
async def wait_for_tasks(
    ctx: ToolContext,
    tasks: Annotated[tuple[str, ...], Field(description="Which ones; left out, all that are at work.")] = (),
    timeout_ms: Annotated[
        Milliseconds | None, Field(alias="timeoutMs", description="Wait no longer than this many milliseconds.")
    ] = None,
) -> Deferred | str:
    """Wait until tasks in the background have ended, and get their reports."""
    at_work = [child.thread for child in ctx.children() if child.background and child.status == "waiting"]
    if not (tasks or at_work):
        return "No task is at work."
    return ctx.wait_for(tasks or at_work, timeout_ms=timeout_ms)


@tool
async def cancel_task(
    task: Annotated[str, Field(description="The task to cancel.")],
    ctx: ToolContext,
) -> str:
    """Stop a task in the background."""
    ctx.cancel_child(task)
    return f"Task {task} is stopped."


@tool
async def send_message(
    to: Annotated[str, Field(description='"parent", a task of yours, or another task of your parent\'s.')],
    text: Annotated[str, Field(min_length=1, description="What to say.")],
    ctx: ToolContext,
) -> str:
    """Say something to another agent of the family that is at work; it reads it at its next turn."""
    ctx.send(to, text)
    return "Sent."


def _usable(section: SubagentsConfig, agents: Mapping[str, Blueprint], own: Blueprint) -> dict[str, Blueprint]:
    """Whom an agent may give work to, by name."""
    copy = own.model_copy(update={"output_schema": None})  # that is for the whole of the work, and this is a part
    known = {COPY: copy, **agents, own.name: copy}
    if section.subagents is None:
        return {
            **{name: agent for name, agent in known.items() if agent is not copy},
            own.name: copy,
            COPY: known[COPY],
        }
    found: dict[str, Blueprint] = {}
    for each in section.subagents:
        if isinstance(each, Blueprint):
            found |= {each.name: each} if each.status == "active" else {}
        elif each in known:
            found[each] = known[each]
    return found


def _shortened(description: str) -> str:
    return description if len(description) <= LISTED_CHARS else f"{description[:LISTED_CHARS]}…"


def _task_tool(usable: Mapping[str, Blueprint], own: str, section: SubagentsConfig, depth: int) -> Tool:
    """`task`, with the agents that this thread may use in its schema, and how far that goes."""
    copies = [name for name in usable if name in (own, COPY) and usable[name] is usable.get(own)]
    others = [name for name in usable if name not in copies]
    listed = [f"- {name}: {_shortened(usable[name].description)}".removesuffix(": ") for name in others]
    if copies:
        listed.append(f"- {' or '.join(copies)}: A copy of yourself, with your tools, that begins from nothing.")
    properties = task.spec.parameters["properties"]
    assert isinstance(properties, dict)
    subagent_type = properties["subagentType"]
    assert isinstance(subagent_type, dict)
    offered: list[JsonValue] = [*others, *copies[-1:]]  # one name of a copy is enough to choose from
    parameters: dict[str, JsonValue] = {
        **task.spec.parameters,
        "properties": {**properties, "subagentType": {**subagent_type, "enum": offered}},
    }
    limits = (
        f"At most {section.max_running} tasks of yours work at the same time. Agents may start agents "
        f"{section.max_depth} deep; you are {depth} deep."
    )
    description = "\n".join([task.spec.description, "", "The agents:", *listed, "", limits])
    return replace(task, spec=task.spec.model_copy(update={"description": description, "parameters": parameters}))


class Subagents(Middleware[SubagentsConfig]):
    name = "subagents"
    tags = ("subagents",)
    registers = tuple(each.name for each in (task, check_tasks, wait_for_tasks, cancel_task, send_message))
    config_model = SubagentsConfig

    def check(self, config: SubagentsConfig, agents: Mapping[str, object]) -> None:
        given = config.subagents or ()
        unknown = [name for name in given if isinstance(name, str) and name not in agents and name != COPY]
        if unknown:
            raise DefinitionError(f"config.subagents names agents that do not exist: {unknown}")
        names = [each if isinstance(each, str) else each.name for each in given]
        if twice := sorted(name for name, count in Counter(names).items() if count > 1):
            raise DefinitionError(f"config.subagents has more than one agent of the name {', '.join(twice)}")

    def own_agents(self, config: SubagentsConfig) -> Sequence[Blueprint]:
        return [each for each in config.subagents or () if isinstance(each, Blueprint)]

    async def on_init(self, ctx: HookContext[SubagentsConfig]) -> None:
        usable = _usable(ctx.config, ctx.agents, ctx.blueprint)
        if usable:
            own = _task_tool(usable, ctx.blueprint.name, ctx.config, ctx.thread.depth)
            for each in (own, check_tasks, wait_for_tasks, cancel_task):
                ctx.register_tool(each)
        if usable or ctx.thread.parent is not None:
            ctx.register_tool(send_message)

    async def before_model(self, ctx: HookContext[SubagentsConfig], plan: Plan) -> None:
        if task.name in plan.tools:
            plan.add_prompt(PROMPT)

    async def state(self, ctx: HookContext[SubagentsConfig]) -> dict[str, JsonValue]:
        return {"subagents": [link.model_dump(mode="json") for link in ctx.children()]}


subagents = Subagents()
