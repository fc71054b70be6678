"""Titles: the beginning of the first message, until something better is set; stored with the thread."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agency import AgentSystem, HookContext, Middleware, open_thread
from agency.messages import Image, Message
from agency.store.peek import glance
from agency.store.since import read_since
from agency.titles import IMAGE_ALONE, TITLE_CHARS, as_title, title_of

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Bake ten rolls", "Bake ten rolls"),
        ("  # Plan\n\n- bake\n- **sell**  ", "Plan bake sell"),
        ("See [the list](https://example.org/x) and `rolls`", "See the list and rolls"),
        ("\x1b[31mred\x00 \ud800", "[31mred"),
        ("snake_case stays", "snake_case stays"),
        ("x" * 200, "x" * (TITLE_CHARS - 1) + "…"),
        ("word " * 50, "word " * 14 + "word…"),
        ("`` ` ``", ""),
    ],
)
def test_a_title_is_one_short_line_of_plain_text(text: str, title: str) -> None:
    assert as_title(text) == title


def test_the_first_message_of_a_user_gives_it() -> None:
    injected = Message(role="user", content="by a middleware", origin="context")
    image = Message(role="user", images=(Image(media_type="image/png", data=PIXEL),))
    assert title_of([Message(role="system", content="-"), injected, Message(role="user", content="Hi")]) == "Hi"
    assert title_of([image]) == IMAGE_ALONE
    assert title_of([injected]) == ""


class Namer(Middleware):
    name = "namer"
    tags = ("default",)

    async def on_turn_end(self, ctx: HookContext) -> None:
        ctx.set_title("**Rolls** for Monday")


SYSTEM = AgentSystem("demo:instant").add_agent(name="clerk", description="-", prompt="-")
NAMING = AgentSystem("demo:instant").use(Namer()).add_agent(name="clerk", description="-", prompt="-")


async def test_a_thread_keeps_its_title_and_a_middleware_may_set_another(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    async with open_thread(SYSTEM, path, agent="clerk") as thread:
        assert glance(path).title == ""
        await thread.invoke("Bake ten rolls")
        await thread.wait()
        await thread.invoke("And a cake")
        await thread.wait()
    assert glance(path).title == "Bake ten rolls"
    async with open_thread(NAMING, path) as thread:
        await thread.invoke("Anything else?")
        run = await thread.wait()
        assert run.meta.request == "Anything else?"
    assert glance(path).title == "Rolls for Monday"


async def test_a_file_of_an_earlier_release_has_the_title_of_its_first_message(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    async with open_thread(SYSTEM, path, agent="clerk") as thread:
        await thread.invoke("Bake ten rolls")
        await thread.wait()
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM meta WHERE key = 'title'")
        db.commit()
    assert glance(path).title == "Bake ten rolls"
    async with open_thread(SYSTEM, path) as thread:
        await thread.invoke("And a cake")
        await thread.wait()
    assert glance(path).title == "Bake ten rolls"


async def test_what_was_said_and_done_is_read_from_where_it_was_left(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    async with open_thread(SYSTEM, path, agent="clerk") as thread:
        await thread.invoke("Bake ten rolls")
        await thread.wait()
        first = read_since(path, 0, 0)
        assert first is not None
        assert first.said[0].text == "Bake ten rolls"
        assert [each.role for each in first.said] == ["user", "assistant"]
        assert all(each.at for each in first.said)
        assert [each.type for each in first.counted] == ["model.completed", "agent.completed"]
        assert first.counted[-1].worked_ms is not None
        nothing = read_since(path, first.seq, first.messages)
        assert nothing is not None
        assert (nothing.said, nothing.counted) == ((), ())
        await thread.invoke("And a cake")
        await thread.wait()
        second = read_since(path, first.seq, first.messages)
        assert second is not None
        assert second.said[0].text == "And a cake"
        earlier = read_since(path, second.seq + 5, second.messages + 5)
        assert earlier is not None
        assert len(earlier.said) == 4
        assert earlier.counted == ()
    assert read_since(tmp_path / "none.db", 0, 0) is None
