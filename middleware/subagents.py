"""Subagents: `task` gives a piece of work to another agent, in a thread of its own, and waits for its report.

Several calls in one reply run in parallel. However the child ends, that is the result of the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

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
    tool,
)

PROMPT = """\
Give self-contained pieces of work to other agents with `task`. They see nothing of this conversation: the description \
must say all they need and what to report. Call `task` several times in one reply to have them work in parallel."""


class SubagentsConfig(BaseModel):
    """`subagents` names the agents that may be used; left out, it is every other active one."""

    model_config = ConfigDict(extra="forbid")

    subagents: tuple[str, ...] | None = None


@tool(safe=True)
async def task(
    description: Annotated[str, Field(min_length=1, description="What to do and what to report.")],
    subagent_type: Annotated[str, Field(alias="subagentType", description="The agent to give it to.")],
    ctx: ToolContext,
    timeout_ms: Annotated[
        int | None, Field(alias="timeoutMs", ge=1, description="Stop the agent after this many milliseconds.")
    ] = None,
) -> Deferred:
    """Give a piece of work to another agent and get its report."""
    section = SubagentsConfig.model_validate(ctx.config.get("subagents", {}))
    usable = _usable(section, ctx.agents, ctx.thread.agent_type)
    if subagent_type not in usable:
        known = ", ".join(usable) or "none"
        raise ToolError(f"there is no agent {subagent_type!r} to use; there are: {known}", kind="invalid_request")
    return ctx.spawn(subagent_type, description, timeout_ms=timeout_ms)


def _usable(section: SubagentsConfig, agents: Mapping[str, Blueprint], own: str) -> dict[str, Blueprint]:
    named = section.subagents
    return {name: agent for name, agent in agents.items() if (name in named if named is not None else name != own)}


def _task_tool(usable: Mapping[str, Blueprint]) -> Tool:
    """`task`, with the agents that this thread may use in its schema."""
    listed = "\n".join(f"- {name}: {agent.description}" for name, agent in usable.items())
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
            ctx.register_tool(_task_tool(usable))

    async def before_model(self, ctx: HookContext[SubagentsConfig], plan: Plan) -> None:
        if task.name in plan.tools:
            plan.add_prompt(PROMPT)

    async def state(self, ctx: HookContext[SubagentsConfig]) -> dict[str, JsonValue]:
        return {"subagents": [link.model_dump(mode="json") for link in ctx.children()]}


subagents = Subagents()
