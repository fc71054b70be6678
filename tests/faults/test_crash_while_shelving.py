"""The process is killed before and after every commit of a run whose calls and hooks write to shelves."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from agency import ABSENT, AgentSystem, HookContext, LocalRuntime, Middleware, RunEnd, ToolContext, tool
from agency.shelves.local import FILE, LocalShelves
from agency.testing import Line, ScriptedModel, call
from tests.support.crashes import killed_and_resumed, killed_at


@tool
async def open_account(ctx: ToolContext, name: str) -> str:
    """Writes only if there is nothing: a second write of the same call would be refused."""
    return (await ctx.shelf("accounts").write(name, "0", if_version=ABSENT)).version


@tool
def add(ctx: ToolContext, name: str, version: str) -> str:
    return ctx.shelf("accounts").blocking.write(name, "7", if_version=version).version


class Ledger(Middleware):
    name = "ledger"
    tags = ("default",)

    async def on_run_start(self, ctx: HookContext) -> None:
        await ctx.shelf("ledger").write(f"{ctx.run_id}.begun", "x", if_version=ABSENT)

    async def on_run_end(self, ctx: HookContext, run: RunEnd) -> None:
        await ctx.shelf("ledger").write(f"{run.run_id}.ended", run.status)


def build() -> AgentSystem:
    lines: list[Line] = [
        call("open_account", name="rye", call_id="1"),
        call("add", name="rye", version="2", call_id="2"),
        "done",
    ]
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lines)})
    system.add_tool(open_account).add_tool(add).use(Ledger())
    return system.add_agent(name="clerk", description="", prompt="clerk")


async def operate(folder: Path) -> None:
    async with LocalRuntime(build(), folder) as runtime:
        known = "clerk" in runtime.thread_ids()
        thread = await (runtime.thread("clerk") if known else runtime.create_thread("clerk", thread_id="clerk"))
        await thread.invoke("go", idempotency_key="1")
        run = await thread.wait(20)
        assert run.status == "completed", run
        said = [message.content for message in (await thread.state()).messages if message.role == "tool"]
        assert said == ["2", "3"], said


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_leaves_every_write_made_once(when: Literal["before", "after"], tmp_path: Path) -> None:
    for folder in killed_and_resumed(tmp_path, when, operate, least=8):
        shelves = LocalShelves(folder / "shelves")
        (account,) = shelves.entries("accounts").entries
        assert (shelves.read("accounts", "rye").text, account.version) == ("7", "3")
        ledger = [entry.path.rpartition(".")[2] for entry in shelves.entries("ledger").entries]
        assert ledger[:1] == ["begun"], folder.name  # `on_run_end` is told at most once


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_of_a_large_write_leaves_the_old_entry_or_the_new_one(
    when: Literal["before", "after"], tmp_path: Path
) -> None:
    old, new = b"o" * 3_000_000, b"n" * 5_000_000
    shelves = LocalShelves(tmp_path / "shelves")

    def work() -> None:
        shelves.write("notes", "a", old)
        shelves.write("notes", "a", new)
        shelves.delete("notes", "a")

    expected = {"before": [None, old, new], "after": [old, new, None]}[when]
    for n, content in enumerate(expected, start=1):
        assert killed_at(n, when, work) == -signal.SIGKILL
        found = [entry.path for entry in shelves.entries("notes").entries]
        assert found == ([] if content is None else ["a"])
        if content is not None:
            assert shelves.read("notes", "a").content == content
            shelves.delete("notes", "a")
    shelves.write("notes", "a", new)


def test_a_kill_at_any_moment_of_a_write_leaves_whole_entries_and_right_totals(tmp_path: Path) -> None:
    """Not only at commits: a large write reaches the file before its commit, and is taken back from the journal."""
    shelves = LocalShelves(tmp_path / "shelves")
    whole = {letter * 3_000_000 for letter in (b"a", b"b")}
    for content in sorted(whole):
        shelves.write("notes", "x", content)

    def write_for_ever() -> None:
        while True:
            for content in sorted(whole):
                shelves.write("notes", "x", content)
                shelves.write("notes", "more/y", content)
                shelves.delete("notes", "more/y")

    chance, versions = random.Random(7), [0]
    for _ in range(12):
        pid = os.fork()
        if pid == 0:
            write_for_ever()
        time.sleep(0.05 + 0.15 * chance.random())
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        entries = shelves.entries("notes").entries
        for entry in entries:
            assert shelves.read("notes", entry.path).content in whole
            assert entry.size == 3_000_000
        with closing(sqlite3.connect(shelves.folder / FILE)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            totals = db.execute("SELECT entries, size FROM totals").fetchone()
            (contents,) = db.execute("SELECT count(*) FROM contents").fetchone()
        assert totals == (len(entries), sum(entry.size for entry in entries))
        assert contents == len(entries)
        versions.append(int(shelves.write("notes", "x", min(whole)).version))
    assert versions == sorted(set(versions))
