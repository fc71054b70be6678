"""The offline model by itself: each of its rules, and that it says the same thing whenever it is asked the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, JsonValue

from agency import (
    AgentSystem,
    Message,
    ModelError,
    ModelParams,
    ModelReply,
    ModelRequest,
    Tool,
    ToolCall,
    ToolSpec,
    open_thread,
    tool,
)
from agency.models.demo import DemoModel
from agency.turn.effects import PendingCall
from agency.turn.modes import tool_message
from agency.turn.outcomes import Failure, Settled, Success
from middleware import hitl
from middleware.filesystem import write_file
from middleware.planning import write_todos

TASK = "Should our bakery deliver on the same day?"
TURNS = 20
"""More than any of its scripts takes."""


@tool
def publish(path: str) -> str:
    """Publish a file."""
    return f"{path} is public"


def task_spec(*agents: str) -> ToolSpec:
    parameters: dict[str, JsonValue] = {
        "type": "object",
        "properties": {
            "description": {"type": "string"},
            "subagentType": {"type": "string", "enum": list(agents)},
            "timeoutMs": {"type": "integer"},
        },
        "required": ["description", "subagentType"],
    }
    return ToolSpec(name="task", description="Give work to another agent.", parameters=parameters)


MANAGER = (write_todos.spec, write_file.spec, task_spec("researcher", "critic"), publish.spec)


def request(
    *messages: Message | str,
    tools: Sequence[ToolSpec] = (),
    system: str = "You help.",
    model: str = "instant",
    tool_choice: Literal["auto", "none"] = "auto",
) -> ModelRequest:
    said = [Message(role="user", content=m) if isinstance(m, str) else m for m in messages]
    params = ModelParams(tool_choice=tool_choice)
    return ModelRequest(model=model, system=system, messages=said, tools=tuple(tools), params=params, key="k")


async def reply_to(asked: ModelRequest) -> ModelReply:
    return await DemoModel().respond(asked, lambda delta: None)


def exchange(reply: ModelReply, outcome: Callable[[ToolCall], Settled]) -> list[Message]:
    """A reply and the results of its calls, as the runtime puts them into the conversation."""
    results = [tool_message(PendingCall(call=call, key="k"), outcome(call)) for call in reply.tool_calls]
    return [Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls), *results]


def works(call: ToolCall) -> Settled:
    return Success(content=f"{call.name} worked")


async def conversation(
    *start: Message | str, tools: Sequence[ToolSpec], outcome: Callable[[ToolCall], Settled] = works
) -> tuple[list[ModelReply], list[Message]]:
    """Let the model work until it answers without a call: its replies, and all messages."""
    messages = list(request(*start).messages)
    replies: list[ModelReply] = []
    for _ in range(TURNS):
        replies.append(await reply_to(request(*messages, tools=tools)))
        messages += exchange(replies[-1], outcome)
        if not replies[-1].tool_calls:
            return replies, messages
    raise AssertionError(f"no answer within {TURNS} turns")


def names(replies: Sequence[ModelReply]) -> list[list[str]]:
    return [[call.name for call in reply.tool_calls] for reply in replies]


def args(reply: ModelReply) -> dict[str, JsonValue]:
    assert isinstance(reply.tool_calls[0].args, dict)
    return reply.tool_calls[0].args


def statuses(reply: ModelReply) -> dict[str, str]:
    todos = args(reply)["todos"]
    assert isinstance(todos, list)
    return {str(todo["content"]): str(todo["status"]) for todo in todos if isinstance(todo, dict)}


# The script as a whole.


async def test_a_manager_plans_delegates_writes_uses_its_tools_ticks_off_and_answers_in_this_order() -> None:
    replies, _ = await conversation(TASK, tools=MANAGER)

    plan = ["write_todos"]
    assert names(replies) == [plan, ["task", "task"], plan, ["write_file"], plan, ["publish"], plan, []]
    done = [str(args(reply)).count("completed") for reply in replies if names([reply]) == [plan]]
    assert done == [0, 1, 2, 4], "the plan moves with the work"


async def test_the_same_request_gets_the_same_reply_at_every_point_of_a_conversation() -> None:
    replies, messages = await conversation(TASK, tools=MANAGER)

    said = [i for i, message in enumerate(messages) if message.role == "assistant"]
    again = [await reply_to(request(*messages[:i], tools=MANAGER)) for i in said]

    assert again == replies


async def test_call_ids_never_repeat_in_a_conversation_of_several_runs() -> None:
    _, messages = await conversation(TASK, tools=MANAGER)
    _, messages = await conversation(*messages, "And on Sundays?", tools=MANAGER)

    ids = [call.id for message in messages for call in message.tool_calls]

    assert len(ids) == 16
    assert len(set(ids)) == len(ids)


async def test_what_was_done_for_an_earlier_message_does_not_count_for_the_next() -> None:
    _, messages = await conversation(TASK, tools=MANAGER)

    replies, _ = await conversation(*messages, "And on Sundays?", tools=MANAGER)

    assert names(replies)[0] == ["write_todos"]
    assert "And on Sundays?" in replies[0].text


async def test_messages_that_middleware_adds_are_not_taken_for_the_users_words() -> None:
    reply = await reply_to(request("echo mine", Message(role="user", content="echo theirs", origin="somebody")))

    assert reply.text == "mine"


async def test_usage_grows_with_the_conversation_and_with_what_is_said() -> None:
    short, long = await reply_to(request("echo a")), await reply_to(request("echo " + "word " * 100))

    assert 0 < short.usage.input < long.usage.input
    assert 0 < short.usage.output < long.usage.output


# Streaming.


@pytest.mark.parametrize("text", ["one", "several words, and  two spaces", "lines\n\n- of markdown\n- and more"])
async def test_the_streamed_pieces_join_to_the_text(text: str) -> None:
    pieces: list[str] = []

    reply = await DemoModel().respond(request(f"echo {text}"), pieces.append)

    assert "".join(pieces) == reply.text == text
    assert len(pieces) == len(text.split())


@pytest.mark.parametrize(("model", "pauses"), [("default", [0.015] * 3), ("instant", [])])
async def test_the_default_waits_a_little_after_each_word_and_instant_does_not(
    model: str, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await reply_to(request("echo three short words", model=model))

    assert [seconds for seconds in waited if seconds] == pauses


# Rule by rule.


async def test_it_says_a_sentence_beside_the_plan() -> None:
    reply = await reply_to(request(TASK, tools=MANAGER))

    assert TASK in reply.text
    assert reply.stop == "tool_use"
    assert statuses(reply) == {
        "Ask researcher and critic": "in_progress",
        "Write /report.md": "pending",
        "Use publish": "pending",
        "Sum up": "pending",
    }


async def test_two_agents_from_the_schema_of_task_are_asked_in_one_reply() -> None:
    reply = await reply_to(request(TASK, tools=[task_spec("a", "b", "c")]))

    asked = [call.args for call in reply.tool_calls if isinstance(call.args, dict)]
    assert [each["subagentType"] for each in asked] == ["a", "b"]
    assert all(TASK in str(each["description"]) for each in asked)
    assert asked[0]["description"] != asked[1]["description"]


async def test_a_lone_agent_is_asked_twice() -> None:
    reply = await reply_to(request(TASK, tools=[task_spec("only")]))

    assert [call.args["subagentType"] for call in reply.tool_calls if isinstance(call.args, dict)] == ["only", "only"]


async def test_without_agents_in_the_schema_nobody_is_asked() -> None:
    reply = await reply_to(request(TASK, tools=[task_spec()]))

    assert reply.tool_calls == ()


async def test_the_report_is_made_of_what_the_subagents_found_out() -> None:
    def outcome(call: ToolCall) -> Settled:
        match call.args:
            case {"subagentType": "researcher"}:
                return Success(content="People want it.")
            case {"subagentType": "critic"}:
                return Failure(kind="external", message="it broke")
        return works(call)

    tools = [task_spec("researcher", "critic"), write_file.spec]
    replies, _ = await conversation(TASK, tools=tools, outcome=outcome)

    assert names(replies) == [["task", "task"], ["write_file"], []]
    assert args(replies[1])["path"] == "/report.md"
    content = str(args(replies[1])["content"])
    assert content.startswith(f"# {TASK}\n")
    assert "## researcher\n\nPeople want it." in content
    assert "## critic\n\nNo result: it broke." in content
    assert "People want it." in replies[-1].text
    assert "critic did not report: it broke." in replies[-1].text


async def test_no_report_is_written_about_nothing() -> None:
    def fails(call: ToolCall) -> Settled:
        return Failure(kind="external", message="it broke")

    replies, _ = await conversation(TASK, tools=[task_spec("a", "b"), write_file.spec], outcome=fails)

    assert names(replies) == [["task", "task"], []]


async def test_an_agent_with_just_a_tool_of_its_own_calls_it_once_and_tells_the_result() -> None:
    replies, _ = await conversation(TASK, tools=[publish.spec])

    assert names(replies) == [["publish"], []]
    assert args(replies[0]) == {"path": TASK}
    assert "publish worked" in replies[1].text


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Order(BaseModel):
    item: str
    size: Size
    note: str = ""


class Tree(BaseModel):
    children: list[Tree]


@tool
def lookup(query: str, limit: int = 10) -> str:
    """Look something up."""
    return query


@tool
def order(count: Annotated[int, Field(ge=3)], price: float, gift: bool, order: Order, on: date, tags: list[str]) -> str:
    """Order things."""
    return "ordered"


@tool
def choose(size: Size, maybe: int | None, code: Annotated[str, Field(max_length=5)]) -> str:
    """Choose."""
    return size


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (lookup, {"query": TASK}),
        (
            order,
            {
                "count": 3,
                "price": 1,
                "gift": True,
                "order": {"item": TASK, "size": "small"},
                "on": "2025-01-01",
                "tags": [TASK],
            },
        ),
        (choose, {"size": "small", "maybe": 1, "code": TASK[:5]}),
    ],
)
async def test_arguments_are_made_up_from_the_schema_and_accepted_by_the_tool(
    own: Tool, expected: dict[str, JsonValue]
) -> None:
    reply = await reply_to(request(TASK, tools=[own.spec]))

    assert args(reply) == expected
    assert own.bind(args(reply))


async def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    @tool
    def grow(tree: Tree) -> str:
        """Grow."""
        return "grown"

    reply = await reply_to(request(TASK, tools=[grow.spec]))

    assert reply.tool_calls[0].name == "grow"


async def test_a_path_is_that_of_the_report_once_there_is_one() -> None:
    replies, _ = await conversation(TASK, tools=MANAGER)

    assert args(replies[5]) == {"path": "/report.md"}


async def test_todos_are_completed_before_the_answer() -> None:
    replies, _ = await conversation(TASK, tools=MANAGER)

    assert set(statuses(replies[-2]).values()) == {"completed"}


async def test_the_answer_tells_what_happened() -> None:
    replies, _ = await conversation(TASK, tools=MANAGER)

    assert replies[-1].stop == "stop"
    for part in (TASK, "researcher reported: task worked", "critic reported", "/report.md", "publish worked"):
        assert part in replies[-1].text


async def test_a_denied_call_is_not_proposed_again_and_the_answer_says_why_it_is_missing() -> None:
    def deny_publish(call: ToolCall) -> Settled:
        if call.name != "publish":
            return works(call)
        denied = "a person denied this call, it was not run: not before Monday"
        return Failure(kind="permission_denied", source="policy", message=denied)

    replies, _ = await conversation(TASK, tools=MANAGER, outcome=deny_publish)

    assert sum(batch == ["publish"] for batch in names(replies)) == 1
    assert statuses(replies[-2])["Use publish"] == "pending"
    assert "I left out publish" in replies[-1].text
    assert "not before Monday" in replies[-1].text


async def test_a_plan_that_cannot_be_written_does_not_stop_the_work() -> None:
    def no_todos(call: ToolCall) -> Settled:
        return Failure(kind="execution", message="no") if call.name == "write_todos" else works(call)

    replies, _ = await conversation(TASK, tools=MANAGER, outcome=no_todos)

    assert names(replies) == [["write_todos"], ["task", "task"], ["write_file"], ["publish"], []]


async def test_without_tools_it_answers_in_prose_at_once() -> None:
    reply = await reply_to(request(TASK))

    assert reply.tool_calls == ()
    assert TASK in reply.text


async def test_where_no_tool_may_be_called_it_answers_with_what_it_has_and_says_what_is_left() -> None:
    _, messages = await conversation(TASK, tools=MANAGER)
    asked = next(i for i, message in enumerate(messages) if message.role == "tool" and "task" in message.content)

    reply = await reply_to(request(*messages[: asked + 2], tools=MANAGER, tool_choice="none"))

    assert reply.tool_calls == ()
    assert "researcher reported: task worked" in reply.text
    assert "Left undone: Write /report.md; Use publish." in reply.text


# As a subagent.


async def test_a_subagent_reports_a_finding_about_just_what_it_was_asked() -> None:
    asked = (await reply_to(request(TASK, tools=[task_spec("a", "b")]))).tool_calls
    orders = [str(call.args["description"]) for call in asked if isinstance(call.args, dict)]

    found = [(await reply_to(request(order))).text for order in orders]

    assert "what speaks for it" in found[0]
    assert "what speaks against it" in found[1]
    assert found == [(await reply_to(request(order))).text for order in orders]


@pytest.mark.parametrize(
    ("said", "system"),
    [
        ("As a subagent, find what speaks for it, and report briefly: cakes", "You help."),
        ("cakes", "You are a subagent of the bakery."),
    ],
)
async def test_a_subagent_does_not_plan_or_delegate_even_where_it_could(said: str, system: str) -> None:
    tools = [write_todos.spec, write_file.spec, task_spec("a", "b")]

    reply = await reply_to(request(said, tools=tools, system=system))

    assert reply.tool_calls == ()
    assert reply.text


async def test_a_subagent_uses_its_own_tools_and_reports_what_they_said() -> None:
    order = "As a subagent, find what speaks for it, and report briefly: cakes"

    replies, _ = await conversation(order, tools=[lookup.spec, write_file.spec])

    assert names(replies) == [["lookup"], []]
    assert args(replies[0]) == {"query": "cakes"}
    assert "lookup worked" in replies[1].text


# Direct orders.


async def test_echo_answers_the_text_and_does_nothing_else() -> None:
    assert (await reply_to(request("echo Hello there", tools=MANAGER))).text == "Hello there"


async def test_fail_fails_like_a_provider() -> None:
    with pytest.raises(ModelError):
        await reply_to(request("fail", tools=MANAGER))


async def test_call_calls_that_tool_with_those_arguments_and_tells_what_came_of_it() -> None:
    replies, _ = await conversation('call publish {"path": "/a.md"}', tools=MANAGER)

    assert names(replies) == [["publish"], []]
    assert args(replies[0]) == {"path": "/a.md"}
    assert "publish worked" in replies[1].text


async def test_several_lines_of_call_are_calls_of_one_reply() -> None:
    reply = await reply_to(request('call lookup {"query": "x"}\ncall publish {"path": "/a"}\ncall ls', tools=MANAGER))

    assert [(call.name, call.args) for call in reply.tool_calls] == [
        ("lookup", {"query": "x"}),
        ("publish", {"path": "/a"}),
        ("ls", {}),
    ]


async def test_arguments_that_are_no_json_are_told_and_nothing_is_called() -> None:
    reply = await reply_to(request('call publish {"path": ', tools=MANAGER))

    assert reply.tool_calls == ()
    assert "cannot read the arguments of publish" in reply.text


@pytest.mark.parametrize("said", ["Please call publish when you are done.", "call the customers and ask", "failed?"])
async def test_a_sentence_that_only_looks_like_an_order_is_a_task(said: str) -> None:
    reply = await reply_to(request(said, tools=MANAGER))

    assert [call.name for call in reply.tool_calls] == ["write_todos"]


# In a real thread.


def team(model: str = "demo:instant") -> AgentSystem:
    return (
        AgentSystem(model)
        .defaults()
        .use(hitl, tags=["careful"])
        .add_tool(publish, tags=["careful"])
        .add_agent(name="researcher", description="Finds facts.", prompt="You find facts.")
        .add_agent(name="critic", description="Finds weak points.", prompt="You find weak points.")
        .add_agent(
            name="manager",
            description="Manages.",
            prompt="You manage.",
            tags=["default", "careful"],
            config={"hitl": {"tools": ["publish"]}},
        )
    )


@pytest.mark.parametrize("approve", [True, False])
async def test_a_team_does_all_of_it_and_waits_for_the_approval(approve: bool, tmp_path: Path) -> None:
    async with open_thread(team(), tmp_path / "t.db", agent="manager") as thread:
        await thread.invoke(TASK)
        waiting = await thread.wait(30)
        assert [call.name for call in waiting.meta.pending_tool_calls] == ["publish"]
        await (thread.approve() if approve else thread.deny("not before Monday"))
        ended = await thread.wait(30)
        state = await thread.state()

    assert ended.status == "completed"
    assert ("/report.md is public" in str(ended.data)) == approve
    assert ("not before Monday" in str(ended.data)) != approve
    files, subagents = state.more["files"], state.more["subagents"]
    assert isinstance(files, dict) and isinstance(subagents, list)
    assert list(files) == ["/report.md"]
    assert [child["status"] for child in subagents if isinstance(child, dict)] == ["completed", "completed"]


async def test_fail_ends_a_run_as_an_error_with_a_code(tmp_path: Path) -> None:
    async with open_thread(team(), tmp_path / "t.db", agent="manager") as thread:
        await thread.invoke("fail")
        ended = await thread.wait(30)

    assert (ended.status, ended.errors[0].code) == ("error", "ERR_API")
