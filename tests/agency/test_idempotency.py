"""A key stands for one request: again it gives the first answer, and with another request it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agency import Approve, Deny, KeyReused, Limits, LocalRuntime, Message, ToolCall, tool
from agency.idempotency import request_digest
from agency.testing import ScriptedModel, call
from middleware import hitl

Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]
PATIENCE = 10.0


@tool
async def shout(word: str) -> str:
    return word.upper()


OTHERS: dict[str, dict[str, Any]] = {
    "words": {"message": "b"},
    "role": {"message": Message(role="system", content="a")},
    "no message": {"message": ()},
    "one more": {"message": [Message(role="user", content="a"), Message(role="user", content="a")]},
    "files": {"message": "a", "files": {"/a": "1"}},
    "limits": {"message": "a", "limits": Limits(turns=3)},
    "schema": {"message": "a", "output_schema": {"type": "object", "properties": {}}},
    "when": {"message": "a", "when": "next_run"},
}


@pytest.mark.parametrize("other", OTHERS)
async def test_another_request_with_a_key_that_was_used_is_refused_and_changes_nothing(
    build: Build, other: str
) -> None:
    runtime, model = build(["one"])
    runtime._system.defaults()
    async with runtime:
        thread = await runtime.create_thread("clerk")
        first = await thread.invoke("a", idempotency_key="k")
        await thread.wait(PATIENCE)
        before = [event async for event in thread.events(follow=False)]
        with pytest.raises(KeyReused, match="used for another request") as refused:
            await thread.invoke(**OTHERS[other], idempotency_key="k")
        assert refused.value.code == "ERR_IDEMPOTENCY"
        assert [event async for event in thread.events(follow=False)] == before
        assert await thread.invoke("a", idempotency_key="k") == first
        assert await thread.invoke(Message(role="user", content="a"), idempotency_key="k") == first
    async with runtime:
        again = await runtime.thread(thread.id)
        with pytest.raises(KeyReused):
            await again.invoke(**OTHERS[other], idempotency_key="k")
        assert len(model.requests) == 1


async def test_a_key_stands_for_one_decision(build: Build) -> None:
    runtime, _ = build(
        [call("shout", word="hey", call_id="c1"), call("shout", word="ho", call_id="c2"), "done"],
        shout,
        tags=["default", "hitl"],
        config={"hitl": {"tools": ["shout"]}},
    )
    runtime._system.use(hitl)
    edited = ToolCall(id="c1", name="shout", args={"word": "hi"})
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).status == "paused"
        await thread.approve([edited], idempotency_key="k")
        assert (await thread.wait(PATIENCE)).status == "paused"  # for the second call
        await thread.approve([edited], idempotency_key="k")  # it was for the first one
        for other in (
            thread.approve(idempotency_key="k"),
            thread.deny("no", idempotency_key="k"),
            thread.decide({"c2": Approve()}, idempotency_key="k"),
        ):
            with pytest.raises(KeyReused):
                await other
        assert [each.id for each in thread.run().meta.pending_tool_calls] == ["c2"]
        await thread.decide({"c2": Deny(reason="no")}, idempotency_key="l")
        assert (await thread.wait(PATIENCE)).data == "done"
        results = [m.content for m in (await thread.state()).messages if m.role == "tool"]
        assert results == [
            "(A person changed the arguments to {'word': 'hi'}.)\nHI",
            "Error: permission_denied: a person denied this call, it was not run: no",
        ]


async def test_a_request_without_a_key_gets_one(build: Build) -> None:
    runtime, _ = build(["one", "two"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        for _ in range(2):
            await thread.invoke("a")
            await thread.wait(PATIENCE)
        keys = [
            event.data["idempotencyKey"] async for event in thread.events(follow=False) if "idem" in str(event.data)
        ]
        assert len(set(keys)) == 2
        assert all(isinstance(key, str) and len(key) == 24 for key in keys)


def test_what_is_left_out_is_left_out_of_the_digest() -> None:
    assert request_digest(a=1, b=None, c={}, d=[]) == request_digest(a=1)
    assert request_digest(a={"x": 1, "y": 2}) == request_digest(a={"y": 2, "x": 1})
    assert request_digest(a=1) != request_digest(a=2)
    assert request_digest(a=0) != request_digest(a=False) != request_digest()
