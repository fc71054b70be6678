"""Messages that were said elsewhere, and runs that begin without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agency import InvalidInput, LocalRuntime, Message, ModelRequest, Thread, ToolCall, tool
from agency.messages import unpaired
from agency.testing import Line, ScriptedModel, call
from middleware import hitl

Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]
PATIENCE = 10.0


@tool(safe=True)
async def shout(word: str) -> str:
    return word.upper()


def user(text: str) -> Message:
    return Message(role="user", content=text)


def calling(*ids: str, text: str = "") -> Message:
    made = tuple(ToolCall(id=each, name="shout", args={"word": each}) for each in ids)
    return Message(role="assistant", content=text, tool_calls=made)


def result(call_id: str, text: str = "") -> Message:
    return Message(role="tool", content=text, tool_call_id=call_id)


async def said(thread: Thread) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in (await thread.state()).messages]


@pytest.mark.parametrize("nothing", [{}, {"message": []}, {"files": {"/a.txt": "a"}}], ids=["none", "empty", "files"])
async def test_a_run_begins_without_a_message(build: Build, nothing: dict[str, Any]) -> None:
    runtime, model = build(["hello", "and again"])
    runtime._system.defaults()
    async with runtime:
        thread = await runtime.create_thread("clerk")
        accepted = await thread.invoke(**nothing)
        assert (accepted.run_id, accepted.status) == (f"{thread.id}.1", "running")
        assert (await thread.wait(PATIENCE)).data == "hello"
        assert (await thread.invoke()).run_id == f"{thread.id}.2"
        assert (await thread.wait(PATIENCE)).data == "and again"
        assert [m.content for m in model.requests[1].messages] == ["hello"]
        assert await said(thread) == [("assistant", "hello"), ("assistant", "and again")]


async def test_without_a_message_a_run_in_progress_goes_on_as_it_is(build: Build) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def script(request: ModelRequest) -> Line:
        asked.set()
        await answer.wait()
        return "done"

    runtime, model = build(script)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        first = await thread.invoke("go")
        await asked.wait()
        assert await thread.invoke() == first
        answer.set()
        assert (await thread.wait(PATIENCE)).run_id == first.run_id
        assert len(model.requests) == 1


@pytest.mark.parametrize("when", ["next_run", "now"])
async def test_when_says_what_becomes_of_a_message(build: Build, when: Any) -> None:
    runtime, _ = build(["done"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        with pytest.raises(InvalidInput, match="there is none"):
            await thread.invoke(when=when)


async def test_a_conversation_is_imported_with_its_calls_and_goes_on(build: Build) -> None:
    runtime, model = build(lambda _: "I shouted both.", shout)
    past = [user("shout"), calling("a", "b", text="Well:"), result("b", "B"), result("a", "A"), user("well?")]
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke(past)
        assert (await thread.wait(PATIENCE)).data == "I shouted both."
        kept = (await thread.state()).messages[: len(past)]
        assert [m.model_copy(update={"id": ""}) for m in kept] == past
        assert [m.role for m in model.requests[0].messages] == ["user", "assistant", "tool", "tool", "user"]


async def test_a_conversation_that_ends_with_the_assistant_is_answered(build: Build) -> None:
    runtime, _ = build(lambda _: "That is all.")
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke([user("hello"), Message(role="assistant", content="Good morning.")])
        assert (await thread.wait(PATIENCE)).data == "That is all."


async def test_the_messages_of_a_state_can_be_sent_as_they_are(build: Build) -> None:
    @tool
    async def fail() -> None:
        raise ValueError("no")

    script: list[Line] = [[call("shout", word="hey"), call("fail")], "Done.", "Again."]
    runtime, model = build(script, shout, fail)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "Done."
        whole = (await thread.state()).messages
        other = await runtime.create_thread("clerk")
        await other.invoke(whole)
        assert (await other.wait(PATIENCE)).data == "Again."
        assert (await said(other))[:-1] == await said(thread)
        failed = [m.meta for m in model.requests[-1].messages if m.role == "tool"]
        assert failed == [None, {"status": "failure"}]


async def test_calls_that_wait_in_a_state_are_told_as_not_run(build: Build) -> None:
    runtime, _ = build(
        lambda request: "I could not." if request.messages[-1].role == "tool" else call("shout", word="hey"),
        shout,
        tags=["default", "hitl"],
        config={"hitl": {"tools": ["shout"]}},
    )
    runtime._system.use(hitl)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).status == "paused"
        other = await runtime.create_thread("clerk")
        await other.invoke((await thread.state()).messages)
        assert (await other.wait(PATIENCE)).data == "I could not."
        assert (await said(other))[2] == ("tool", "Canceled: this call was not run here.")


async def test_what_is_ours_to_give_is_not_taken_over(build: Build) -> None:
    runtime, _ = build(lambda _: "done")
    theirs = Message(
        id="m7", role="assistant", content="hm", origin="code", meta={"model": "other", "replay": {"blocks": []}}
    )
    passing = Message(role="user", content="for one call", transient=True)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke([user("a"), theirs, passing])
        await thread.wait(PATIENCE)
        first, second, third = (await thread.state()).messages
        assert (second.content, second.origin, second.meta) == ("hm", None, None)
        assert third.content == "done"
        assert len({first.id, second.id, third.id} - {"m7"}) == 3


async def test_an_imported_conversation_joins_a_run_whole(build: Build) -> None:
    began, let = asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> str:
        began.set()
        await let.wait()
        return "held"

    runtime, _ = build(lambda request: "done" if len(request.messages) > 1 else call("hold"), hold, shout)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await began.wait()
        await thread.invoke([calling("a"), result("a", "A"), user("well?")])
        let.set()
        assert (await thread.wait(PATIENCE)).data == "done"
        roles = [role for role, _ in await said(thread)]
        assert roles == ["user", "assistant", "tool", "assistant", "tool", "user", "assistant"]


WRONG: dict[str, tuple[list[Message], str]] = {
    "a result of no call": ([user("a"), result("a", "A")], "names call 'a'"),
    "a result of an earlier message": ([calling("a"), result("a"), user("x"), result("a")], "names call 'a'"),
    "two results": ([calling("a", "b"), result("a"), result("a")], "two results"),
    "a call without a result": ([calling("a"), user("well?")], "call 'a' has no result"),
    "half of the results": ([calling("a", "b"), result("a")], "call 'b' has no result"),
    "two calls of one id": ([calling("a", "a"), result("a")], "the same id"),
    "calls of a user": ([Message(role="user", content="x", tool_calls=calling("a").tool_calls)], "an assistant's"),
    "a result without an id": ([calling("a"), Message(role="tool", content="A")], "`toolCallId`"),
    "an id of a user": ([Message(role="user", content="x", tool_call_id="a")], "`toolCallId`"),
    "a call without a name": (
        [Message(role="assistant", tool_calls=(ToolCall(id="a", name="", args={}),)), result("a")],
        "an `id` and a `name`",
    ),
    "nothing said": ([user(" ")], "empty"),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_calls_and_results_that_do_not_fit_are_refused_and_change_nothing(build: Build, wrong: str) -> None:
    messages, problem = WRONG[wrong]
    runtime, _ = build(["done"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        with pytest.raises(InvalidInput, match=problem):
            await thread.invoke([user("fine"), *messages])
        assert await said(thread) == []
        assert thread.run_state().status == "registered"


def test_ids_may_come_again_in_a_later_message() -> None:
    assert unpaired([calling("a"), result("a"), calling("a"), result("a")]) is None
