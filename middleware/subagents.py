"""Subagents: `task` gives a piece of work to another agent, in a thread of its own, and waits for its report.

Several calls in one reply run in parallel. However the child ends, that is the result of the call. A task in the
background has no call that waits for it: a note says when it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue
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
Give self-contained pieces of work to other agents with `task`. They see nothing of this conversation: the description \
must say all they need and what to report; `files` are copied to them, `returnFiles` come back with the report. Call \
`task` several times in one reply to have them work in parallel. With `background`, you go on at once: a note tells \
you when such a task has ended, `check_tasks` what has come of them, `wait_for_tasks` waits, `cancel_task` calls one \
back. If another agent started you, end no run while background tasks work whose results you need: they end with it. \
`send_message` says something to an agent that is at work."""

Milliseconds = Annotated[int, Field(ge=1, lt=2**53)]


class SubagentsConfig(BaseModel):
    """`subagents` names the agents that may be used; left out, it is every other active one. A thread may have so many
    children at work at once, and a family so many generations below the first thread."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    subagents: tuple[str, ...] | None = None
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
    """Give a piece of work to another agent and get its report."""
    section = SubagentsConfig.model_validate(ctx.config.get("subagents", {}))
    usable = _usable(section, ctx.agents, ctx.thread.agent_type)
    if subagent_type not in usable:
        known = ", ".join(usable) or "none"
        raise ToolError(f"there is no agent {subagent_type!r} to use; there are: {known}", kind="invalid_request")
    _check_limits(section, ctx)
    handed = _contents(ctx, files)
    if not background:
        return ctx.spawn(subagent_type, description, timeout_ms=timeout_ms, files=handed, returns=return_files)
    child = ctx.spawn_in_background(
        subagent_type, description, timeout_ms=timeout_ms, files=handed, returns=return_files
    )
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


def _usable(section: SubagentsConfig, agents: Mapping[str, Blueprint], own: str) -> dict[str, Blueprint]:
    named = section.subagents
    return {name: agent for name, agent in agents.items() if (name in named if named is not None else name != own)}


def _task_tool(usable: Mapping[str, Blueprint]) -> Tool:
    """`task`, with the agents that this thread may use in its schema."""
    listed = "\n".join(f"- {name}: {agent.description}".removesuffix(": ") for name, agent in usable.items())
    properties = task.spec.parameters["properties"]
    assert isinstance(properties, dict)
    subagent_type = properties["subagentType"]
    assert isinstance(subagent_type, dict)
    parameters: dict[str, JsonValue] = {
        **task.spec.parameters,
        "properties": {**properties, "subagentType": {**subagent_type, "enum": list(usable)}},
    }
    description = f"{task.spec.description}\n\nThe agents:\n{listed}"
    return replace(task, spec=task.spec.model_copy(update={"description": description, "parameters": parameters}))


class Subagents(Middleware[SubagentsConfig]):
    name = "subagents"
    tags = ("subagents",)
    config_model = SubagentsConfig

    def check(self, config: SubagentsConfig, agents: Mapping[str, object]) -> None:
        unknown = [name for name in config.subagents or () if name not in agents]
        if unknown:
            raise DefinitionError(f"config.subagents names agents that do not exist: {unknown}")

    async def on_init(self, ctx: HookContext[SubagentsConfig]) -> None:
        usable = _usable(ctx.config, ctx.agents, ctx.thread.agent_type)
        if usable:
            for each in (_task_tool(usable), check_tasks, wait_for_tasks, cancel_task):
                ctx.register_tool(each)
        if usable or ctx.thread.parent is not None:
            ctx.register_tool(send_message)

    async def before_model(self, ctx: HookContext[SubagentsConfig], plan: Plan) -> None:
        if task.name in plan.tools:
            plan.add_prompt(PROMPT)

    async def state(self, ctx: HookContext[SubagentsConfig]) -> dict[str, JsonValue]:
        return {"subagents": [link.model_dump(mode="json") for link in ctx.children()]}


subagents = Subagents()
