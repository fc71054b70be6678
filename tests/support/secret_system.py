"""A system whose tools and middleware say their secrets wherever they can. Hosts import it, and workers of Ray."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agency import AgentSystem, HookContext, Middleware, Plan, Secret, ToolContext, ToolError, secret, tool
from tests.support.scripted_system import ScriptModel

NAMES = ("LEAKED_IN_HOST", "LEAKED_IN_TASK", "LEAKED_BY_HOOKS", "AGENCY_KEY_LEAKED")
UNDECLARED = "UNDECLARED_API_KEY"
"""A variable that no reference names."""
"""The variables in which the test plants values."""


def _say(value: str, how: str) -> str:
    sys.stderr.write(f"a library says {how}\n")
    if how == "told":
        raise ToolError(f"refused: {value}")
    if how == "raised":
        raise ValueError(value)
    return f"it has {len(value)} characters: {value}"


def _environment() -> dict[str, list[str]]:
    """Which of the variables this process has, and which it began with."""
    began = Path("/proc/self/environ").read_bytes().decode().split("\0")
    named = {each.partition("=")[0] for each in began}
    return {"has": [name for name in NAMES if name in os.environ], "began": [name for name in NAMES if name in named]}


@tool(secrets={"key": secret("env:LEAKED_IN_HOST")})
async def leak(how: str, ctx: ToolContext) -> str:
    """Say the secret, in a host."""
    ctx.store.put("leak", "value", ctx.secret("key"))
    await ctx.shelf("leaks").write("host", ctx.secret("key"))
    return _say(ctx.secret("key"), how)


@tool(secrets={"key": secret("env:LEAKED_IN_TASK")}, ray={"num_cpus": 1})
def leak_in_task(how: str, ctx: ToolContext) -> str:
    """Say the secret, in a worker of Ray."""
    ctx.store.put("leak", "value", ctx.secret("key"))
    ctx.shelf("leaks").blocking.write("task", ctx.secret("key"))
    return _say(ctx.secret("key"), how)


@tool(ray={"num_cpus": 1})
def environment_of_task() -> dict[str, list[str]]:
    """What a worker of Ray has of the planted values, if its tool declares nothing."""
    return _environment()


@tool
async def leak_undeclared(how: str) -> str:
    """Say what the host has in its environment, and no tool has declared."""
    return _say(os.environ[UNDECLARED], how)


@tool(ray={"num_cpus": 1})
def leak_undeclared_in_task(how: str) -> str:
    """The same in a worker of Ray."""
    return _say(os.environ[UNDECLARED], how)


@tool
async def dump() -> str:
    """All variables of a host, as a careless tool would say them."""
    return "\n".join(f"{name}={value}" for name, value in os.environ.items() if name in NAMES)


class LeakConfig(BaseModel):
    key: Secret = secret("env:LEAKED_BY_HOOKS")


class Leaking(Middleware[LeakConfig]):
    name = "leaking"
    tags = ("default",)
    config_model = LeakConfig

    async def before_model(self, ctx: HookContext[LeakConfig], plan: Plan) -> None:
        value = ctx.secret(ctx.config.key)
        plan.add_prompt(f"The key is {value}.")
        ctx.store.put("leaking", "length", len(value))
        ctx.store.put("leaking", "value", value)

    async def state(self, ctx: HookContext[LeakConfig]) -> dict[str, Any]:
        return {"leaking": {"length": ctx.store.get("leaking", "length"), "value": ctx.secret(ctx.config.key)}}


system = (
    AgentSystem("script:any", providers={"script": ScriptModel()})
    .use(Leaking())
    .add_tool(leak)
    .add_tool(leak_in_task)
    .add_tool(leak_undeclared)
    .add_tool(leak_undeclared_in_task)
    .add_tool(environment_of_task)
    .add_tool(dump)
    .add_agent(
        name="clerk",
        description="Does what it is told.",
        prompt="clerk",
        config={"leaking": {"key": "env:LEAKED_BY_HOOKS"}},
    )
)
