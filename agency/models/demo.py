"""The model `demo:…`: offline, scripted, deterministic. What a newcomer without a key runs.

It is a table of rules over the conversation since the user's last message; the first rule that applies speaks
(`RULES`). It keeps no state and never looks at a clock, so a call that is repeated after a crash gets the
same reply. What it finds out is made up, and it says so.

It also takes direct orders, for playing: `echo TEXT` answers TEXT, `fail` fails as a provider does, and
`call NAME {"arg": 1}` calls a tool; several such lines are several calls in one reply.

`demo:default` streams at the pace of speech, `demo:instant` does not wait at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from agency.errors import ModelError
from agency.messages import Message, ToolCall, Usage
from agency.models.demo_arguments import at, made_up_arguments, strings
from agency.models.interface import Capability, ModelRequest, OnDelta, ToolSpec
from agency.turn.effects import ModelReply

REPORT = "/report.md"
STOCK_TOOLS = frozenset(
    {"write_todos", "ls", "read_file", "write_file", "edit_file"}
    | {"task", "check_tasks", "wait_for_tasks", "cancel_task", "send_message"}
)
COPY = "general-purpose"
"""How agents may name a copy of themselves, see `middleware/subagents.py`."""
SECONDS_PER_WORD = {"default": 0.015, "instant": 0.0}

# It gives work to subagents in these words and knows them again as a subagent, so that it never delegates further.
ORDERS_TO_SUBAGENTS = (
    "As a subagent, find what speaks for it, and report briefly: {}",
    "As a subagent, find what speaks against it, and report briefly: {}",
)
_SUBAGENT_ORDER = re.compile(r"as a subagent, find (?P<aspect>[^,]+), and report briefly: (?P<topic>.+)", re.I | re.S)
_SUBAGENT_PROMPT = re.compile(r"\byou are a sub-?agent\b", re.I)
_CALL_ORDER = re.compile(r"call\s+(?P<name>[\w.-]+)\s*(?P<args>\{.*)?", re.I)


class DemoModel:
    """Speaks by the rules, word by word. It costs nothing."""

    model_names = frozenset(SECONDS_PER_WORD)

    def capabilities(self, model: str) -> frozenset[Capability]:
        return frozenset({"streaming", "tools"})

    def cost(self, model: str, usage: Usage) -> float | None:
        return 0.0

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        text, calls = speak(Scene.of(request))
        delay = SECONDS_PER_WORD.get(request.model, SECONDS_PER_WORD["default"])
        await asyncio.sleep(0)  # others get their turn even where nothing waits
        for word in re.findall(r"\s*\S+\s*", text):
            on_delta(word)
            if delay:
                await asyncio.sleep(delay)
        return _reply(request, text, calls)


# What the rules look at.


@dataclass(frozen=True, slots=True)
class Answered:
    """A call of this run, and the result that the model was given."""

    name: str
    args: Mapping[str, JsonValue]
    result: str
    ok: bool

    @property
    def denied(self) -> bool:
        return not self.ok and "permission_denied" in self.result

    @property
    def problem(self) -> str:
        """What went wrong, without the label in front of it."""
        return _one_line(re.sub(r"^(Error: \w+|Canceled): ", "", self.result), 200).rstrip(".")


@dataclass(frozen=True, slots=True)
class Scene:
    """A request as the rules see it. `offered` are the tools that may be called now; `tools` are all there are."""

    system: str
    said: str
    tools: Mapping[str, ToolSpec]
    offered: Mapping[str, ToolSpec]
    done: Sequence[Answered]

    @classmethod
    def of(cls, request: ModelRequest) -> Scene:
        messages = list(request.messages)
        # A message with an origin comes from middleware or the runtime, not from a person.
        spoken = [i for i, message in enumerate(messages) if message.role == "user" and message.origin is None]
        start = spoken[-1] if spoken else 0
        tools = {tool.name: tool for tool in request.tools}
        return cls(
            system=request.system,
            said=messages[start].content.strip() if spoken else "",
            tools=tools,
            offered={} if request.params.tool_choice == "none" else tools,
            done=_calls(messages[start:]),
        )

    @property
    def topic(self) -> str:
        """The user's words, short enough for a title."""
        order = _SUBAGENT_ORDER.match(self.said)
        return _one_line(order["topic"] if order else self.said, 80).rstrip(".") or "nothing in particular"

    @property
    def subagent(self) -> bool:
        return bool(_SUBAGENT_ORDER.match(self.said) or _SUBAGENT_PROMPT.search(self.system))

    @property
    def agents(self) -> list[str]:
        """Whom `task` can be given to. A copy of itself would only say the same."""
        schema = self.tools["task"].parameters if "task" in self.tools else {}
        return [name for name in strings(at(schema, "properties", "subagentType", "enum")) if name != COPY]

    @property
    def own_tools(self) -> list[str]:
        """The tools that the user added to this agent."""
        return [name for name in self.tools if name not in STOCK_TOOLS]

    def calls_of(self, name: str) -> list[Answered]:
        return [call for call in self.done if call.name == name]

    def succeeded(self, *names: str) -> bool:
        """Whether each was called, and no call failed."""
        return all(self.calls_of(name) and all(call.ok for call in self.calls_of(name)) for name in names)


def _calls(messages: Sequence[Message]) -> list[Answered]:
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    made = [call for message in messages for call in message.tool_calls]
    return [_done(call, results[call.id]) for call in made if call.id in results]


def _done(call: ToolCall, result: Message) -> Answered:
    failed = isinstance(result.meta, dict) and "status" in result.meta
    ok = not failed and not result.content.startswith(("Error: ", "Canceled: "))
    return Answered(call.name, call.args if isinstance(call.args, dict) else {}, result.content, ok)


# What they say.

Calls = list[tuple[str, dict[str, JsonValue]]]
Speech = tuple[str, Calls]
"""Text, and the calls beside it."""

Rule = Callable[[Scene], Speech | None]


def obey_echo(scene: Scene) -> Speech | None:
    """`echo TEXT`."""
    word, _, text = scene.said.partition(" ")
    return (text.strip(), []) if word.lower() == "echo" and text.strip() else None


def obey_fail(scene: Scene) -> Speech | None:
    """`fail`."""
    if scene.said.lower() == "fail":
        raise ModelError("the demo model fails, as it was told to")
    return None


def obey_call(scene: Scene) -> Speech | None:
    """`call NAME {…}`, one or more lines of it; afterwards, what came of it."""
    orders = [_CALL_ORDER.fullmatch(line.strip()) for line in scene.said.splitlines() if line.strip()]
    if not orders or not all(orders) or not scene.offered:
        return None
    if scene.done:
        return answer(scene)
    calls: Calls = []
    for order in orders:
        assert order is not None
        try:
            args = json.loads(order["args"] or "{}")
        except ValueError as error:
            return f"I cannot read the arguments of {order['name']} as JSON: {error}.", []
        calls.append((order["name"], args))
    return f"Calling {_listed(name for name, _ in calls)}, as you say.", calls


def plan(scene: Scene) -> Speech | None:
    """No todos yet: write them."""
    if "write_todos" not in scene.offered or scene.subagent or scene.calls_of("write_todos"):
        return None
    return f"Let me plan this: {scene.topic}", [("write_todos", {"todos": _todos(scene)})]


def keep_plan(scene: Scene) -> Speech | None:
    """A step is done, and there are others: bring the todos up to date before the next one."""
    if "write_todos" not in scene.offered or not scene.succeeded("write_todos"):
        return None
    left = [name for _, name in _steps(scene) if name in scene.offered and not scene.calls_of(name)]
    return _written(scene, _todos(scene)) if left else None


def delegate(scene: Scene) -> Speech | None:
    """The first turn: ask two subagents, in parallel."""
    if "task" not in scene.offered or scene.subagent or scene.calls_of("task") or not scene.agents:
        return None
    asked = _asked(scene)
    orders = [order.format(scene.topic) for order in ORDERS_TO_SUBAGENTS]
    calls: Calls = [
        ("task", {"description": order, "subagentType": agent}) for order, agent in zip(orders, asked, strict=True)
    ]
    return f"Two questions for {_listed(dict.fromkeys(asked))}, at the same time.", calls


def write_report(scene: Scene) -> Speech | None:
    """There are results: put them into a file."""
    results = [call for call in scene.done if call.name == "task" or call.name in scene.own_tools]
    if "write_file" not in scene.offered or scene.subagent or scene.calls_of("write_file"):
        return None
    if not any(call.ok for call in results):
        return None
    parts = [f"## {call.args.get('subagentType', call.name)}\n\n{_result(call)}" for call in results]
    closing = "*Written by the offline demo model: the findings are made up.*"
    content = "\n\n".join([f"# {scene.topic}", *parts, closing]) + "\n"
    return f"I put what we have into {REPORT}.", [("write_file", {"path": REPORT, "content": content})]


def try_own_tool(scene: Scene) -> Speech | None:
    """The agent has a tool of its own that was not called yet: call it, once."""
    for name in scene.own_tools:
        if name in scene.offered and not scene.calls_of(name):
            return f"Now {name}.", [(name, _arguments(scene, scene.tools[name]))]
    return None


def _arguments(scene: Scene, tool: ToolSpec) -> dict[str, JsonValue]:
    return made_up_arguments(tool, scene.topic, REPORT if scene.succeeded("write_file") else None)


def tick_off(scene: Scene) -> Speech | None:
    """All is done that will be: bring the todos up to date."""
    if "write_todos" not in scene.offered or not scene.succeeded("write_todos"):
        return None
    return _written(scene, _todos(scene, ended=True))


def _written(scene: Scene, todos: list[JsonValue]) -> Speech | None:
    """Write the todos, unless that is what they are."""
    return (
        None
        if scene.calls_of("write_todos")[-1].args.get("todos") == todos
        else ("", [("write_todos", {"todos": todos})])
    )


def answer(scene: Scene) -> Speech:
    """What really happened, in prose."""
    told = [sentence for call in scene.done if (sentence := _sentence(call))]
    undone = _undone(scene)
    if scene.subagent:
        return " ".join([finding(scene), *told]), []
    if not (told or undone):
        return f"You said “{scene.topic}”. I am the offline demo model and follow a script. {finding(scene)}", []
    return " ".join([f"About “{scene.topic}”:", *told, *undone]), []


RULES: tuple[Rule, ...] = (
    obey_echo,
    obey_fail,
    obey_call,
    plan,
    keep_plan,
    delegate,
    write_report,
    try_own_tool,
    tick_off,
    answer,
)


def speak(scene: Scene) -> Speech:
    """The first rule that applies speaks."""
    return next(speech for rule in RULES if (speech := rule(scene)) is not None)


# Pieces of what they say.


def _asked(scene: Scene) -> list[str]:
    """Two subagents; if there is only one, it twice."""
    return [*scene.agents, *scene.agents][:2]


def _steps(scene: Scene) -> list[tuple[str, str]]:
    """What an agent with these tools sets out to do: the step, and the tool that does it."""
    steps = []
    if scene.agents:
        steps.append((f"Ask {_listed(dict.fromkeys(_asked(scene)))}", "task"))
    if "write_file" in scene.tools and (scene.agents or scene.own_tools):
        steps.append((f"Write {REPORT}", "write_file"))
    return steps + [(f"Use {name}", name) for name in scene.own_tools]


def _todos(scene: Scene, *, ended: bool = False) -> list[JsonValue]:
    todos: list[JsonValue] = []
    going = False
    for step, name in _steps(scene):
        status = "completed" if scene.succeeded(name) else "pending" if ended or going else "in_progress"
        going = going or status == "in_progress"
        todos.append({"content": step, "status": status})
    last = "completed" if ended else "pending" if going else "in_progress"
    return [*todos, {"content": "Sum up", "status": last}]


def _undone(scene: Scene) -> list[str]:
    """When no tool may be called any more: the steps that were planned and not begun."""
    if scene.offered or not scene.calls_of("write_todos"):
        return []
    left = [step for step, name in _steps(scene) if not scene.calls_of(name)]
    return [f"Left undone: {'; '.join(left)}."] if left else []


def _sentence(call: Answered) -> str:
    match call:
        case Answered(name="write_todos"):
            return ""
        case Answered(denied=True):
            return f"I left out {call.name}: {call.problem}."
        case Answered(name="task", ok=True):
            return f"{call.args.get('subagentType')} reported: {_result(call)}"
        case Answered(name="task"):
            return f"{call.args.get('subagentType')} did not report: {call.problem}."
        case Answered(ok=False):
            return f"{call.name} did not work: {call.problem}."
        case Answered(name="write_file"):
            return f"The report is in {call.args.get('path')}."
        case _:
            return f"{call.name} answered: {_one_line(call.result, 200).rstrip('.')}."


def _result(call: Answered) -> str:
    return call.result.strip() if call.ok else f"No result: {call.problem}."


def finding(scene: Scene) -> str:
    """Something plausible about what was said; the same words always get the same finding."""
    order = _SUBAGENT_ORDER.match(scene.said)
    seed = hashlib.blake2b(scene.said.encode(), digest_size=3).digest()
    share, sources = 55 + seed[0] % 40, 3 + seed[1] % 7
    weight = ("cost", "time", "habit", "trust", "demand")[seed[2] % 5]
    aspect = order["aspect"] if order else "what matters most"
    return f"On {aspect}: {share} % of the people in {sources} sources name {weight} first (made up)."


def _listed(names: Iterable[object]) -> str:
    return " and ".join(str(name) for name in names)


def _one_line(text: str, width: int) -> str:
    return textwrap.shorten(text, width, placeholder=" …")


# The reply.


def _reply(request: ModelRequest, text: str, calls: Calls) -> ModelReply:
    # The number of replies so far grows with each, whatever middleware adds or hides, so ids never repeat.
    turn = 1 + sum(message.role == "assistant" for message in request.messages)
    made = tuple(ToolCall(id=f"call_{turn}_{i}", name=name, args=args) for i, (name, args) in enumerate(calls, 1))
    return ModelReply(
        text=text, tool_calls=made, stop="tool_use" if made else "stop", usage=_usage(request, text, made)
    )


def _usage(request: ModelRequest, text: str, calls: tuple[ToolCall, ...]) -> Usage:
    """As a real model would count, roughly: four characters are a token."""
    asked = len(request.system) + sum(len(message.content) + _size(message.tool_calls) for message in request.messages)
    offered = sum(len(tool.description) + len(json.dumps(tool.parameters)) for tool in request.tools)
    return Usage(input=(asked + offered) // 4 + 1, output=(len(text) + _size(calls)) // 4 + 1)


def _size(calls: Iterable[ToolCall]) -> int:
    return sum(len(call.name) + len(json.dumps(call.args)) for call in calls)
