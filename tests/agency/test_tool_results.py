"""Results with pictures and files: the model sees the pictures, the agent keeps the files, events hold neither."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from agency import AgentSystem, CallTool, CodeResult, EventType, Image, Message, Thread, ToolResult, open_thread, tool
from agency.testing import Line, ScriptedModel, call
from middleware import filesystem

PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)
PICTURE = Image.from_bytes(PNG)


@tool
async def draw() -> ToolResult:
    """Draw it."""
    return ToolResult({"drawn": 1}, images=[PICTURE], files={"/plan.txt": "two ovens", "/plan.png": PNG})


@tool
def look() -> Image:
    """Look at it."""
    return PICTURE


def system_with(*lines: Line, files: bool = True, model: Any = None) -> AgentSystem:
    system = AgentSystem("scripted:any", providers={"scripted": model or ScriptedModel([*lines, "done"])})
    if files:
        system.use(filesystem, tags=["default"])
    return system.add_agent(name="clerk", description="Does as told.", prompt="You are a clerk.")


async def run(thread: Thread) -> list[Message]:
    """The tools' results of a run that completes."""
    await thread.invoke("go")
    ended = await thread.wait(timeout=10)
    assert ended.status == "completed", ended
    return [message for message in (await thread.state()).messages if message.role == "tool"]


async def test_the_model_sees_pictures_and_the_agent_keeps_files(tmp_path: Path) -> None:
    model = ScriptedModel([call("draw"), "done"], capabilities=["tools", "images"])
    system = system_with(model=model).add_tool(draw)
    async with open_thread(system, tmp_path / "clerk.db", agent="clerk") as thread:
        (result,) = await run(thread)
        assert await thread.read_file("/plan.png") == PNG
        assert await thread.read_file("/plan.txt") == b"two ovens"
    listed = f"/plan.txt (9 bytes), /plan.png ({len(PNG)} bytes)"
    assert result.content == f'{{"drawn":1}}\n(Kept as files: {listed})'
    assert (result.images, result.meta) == ((PICTURE,), {"files": ["/plan.txt", "/plan.png"]})
    assert model.requests[-1].messages[-1].images == (PICTURE,)


async def test_an_image_alone_is_a_result(tmp_path: Path) -> None:
    async with open_thread(system_with(call("look")).add_tool(look), tmp_path / "clerk.db", agent="clerk") as thread:
        (result,) = await run(thread)
    assert (result.content, result.images) == ("", (PICTURE,))


async def test_events_say_what_pictures_and_files_there_are_and_hold_none_of_them(tmp_path: Path) -> None:
    async with open_thread(system_with(call("draw")).add_tool(draw), tmp_path / "clerk.db", agent="clerk") as thread:
        await run(thread)
        events = [event async for event in thread.events(follow=False)]
    (output,) = [event.data for event in events if event.type == EventType.TOOL_OUTPUT]
    assert output["images"] == [{"mediaType": "image/png", "bytes": len(PNG)}]
    assert output["files"] == ["/plan.txt", "/plan.png"]
    assert PICTURE.data is not None
    assert not any(PICTURE.data in event.model_dump_json() for event in events)


async def test_an_agent_without_a_filesystem_reads_that_files_were_not_kept(tmp_path: Path) -> None:
    system = system_with(call("draw"), files=False).add_tool(draw)
    async with open_thread(system, tmp_path / "clerk.db", agent="clerk") as thread:
        (result,) = await run(thread)
    assert "(You have no filesystem to keep: /plan.txt (9 bytes)" in result.content
    assert (result.images, result.meta) == ((PICTURE,), None)


BROKEN = Image(media_type="image/png", data="no base64!")


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (ToolResult(files={"/": "a folder"}), "draw returned what cannot be kept: file '/': that is a folder"),
        (ToolResult(files={"/a": 7}), "what cannot be used: wrong files"),  # type: ignore[dict-item]
        (ToolResult(images=["x"]), "what cannot be used: wrong images"),  # type: ignore[list-item]
        (ToolResult(images=[BROKEN]), "what cannot be used: an image's `data` is base64"),
        (ToolResult(images=[PICTURE] * 21), "a result has at most 20 images, not 21"),
        (ToolResult(object()), "returned what JSON cannot say"),
    ],
)
async def test_what_cannot_be_kept_or_shown_fails_the_call(tmp_path: Path, result: ToolResult, why: str) -> None:
    @tool(name="draw")
    async def wrong() -> ToolResult:
        return result

    async with open_thread(system_with(call("draw")).add_tool(wrong), tmp_path / "clerk.db", agent="clerk") as thread:
        (told,) = await run(thread)
        assert await thread.files() == ()
    assert why in told.content
    assert (told.images, told.meta) == ((), {"status": "failure"})


def test_bytes_become_an_image_of_their_format() -> None:
    begins: dict[str, bytes] = {
        "image/png": PNG,
        "image/jpeg": b"\xff\xd8\xff\xe0",
        "image/gif": b"GIF89a",
        "image/webp": b"RIFF\0\0\0\0WEBP",
    }
    for media_type, content in begins.items():
        image = Image.from_bytes(content)
        assert (image.media_type, base64.b64decode(image.data or "")) == (media_type, content)
    with pytest.raises(ValueError, match="a PNG, a JPEG, a GIF or a WebP"):
        Image.from_bytes(b"<svg/>")


async def test_a_model_that_takes_no_images_reads_that_there_are_some(tmp_path: Path) -> None:
    model = ScriptedModel([call("look"), "done"], capabilities=["tools"])
    async with open_thread(system_with(model=model).add_tool(look), tmp_path / "clerk.db", agent="clerk") as thread:
        (result,) = await run(thread)
        assert result.images == (PICTURE,)
    seen = model.requests[-1].messages[-1]
    assert (seen.images, seen.content) == ((), "(1 image(s) came with this, which you cannot see.)")


async def test_in_code_mode_the_code_gets_the_images(tmp_path: Path) -> None:
    class Runner:
        async def run(self, code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
            outcome = await call_tool("look", {})
            assert outcome.status == "success"
            return CodeResult(output=f"{len(outcome.images)} image", submitted=("seen",))

    system = AgentSystem(
        "scripted:any",
        providers={"scripted": ScriptedModel(["```python\nlook()\n```"])},
        code_runner=Runner(),
    ).add_tool(look)
    system.add_agent(name="coder", description="Writes code.", prompt="You write Python.", mode="code")
    async with open_thread(system, tmp_path / "coder.db", agent="coder") as thread:
        await thread.invoke("go")
        assert (await thread.wait(timeout=10)).data == "seen"
        (output,) = [message for message in (await thread.state()).messages if message.origin == "code"]
    assert output.content == "Output:\n1 image"
