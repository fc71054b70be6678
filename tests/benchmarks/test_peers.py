"""The pieces of the comparison with peers, without the peers: nothing is installed here, and nothing is timed."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import aiohttp
import openai
import pytest

from benchmarks import pages
from benchmarks.peers import in_process, results, resume
from benchmarks.peers.environments import REQUIREMENTS, folder_of, peers, version_of
from benchmarks.peers.in_process import Contender, started
from benchmarks.peers.servers import Begun, Server, model_server

PEERS = ["agno", "deepagents", "pydantic_ai"]


def test_every_package_of_a_peer_is_pinned_and_names_no_registry() -> None:
    assert peers() == PEERS
    for peer in PEERS:
        lines = (REQUIREMENTS / f"{peer}.txt").read_text().splitlines()
        assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
        assert re.fullmatch(r"[\d.]+", version_of(peer))


def test_an_environment_is_in_the_users_cache_and_another_one_for_other_pins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("benchmarks.peers.environments.REQUIREMENTS", tmp_path)
    (tmp_path / "one.txt").write_text("one==1.0\n")
    first = folder_of("one")
    (tmp_path / "one.txt").write_text("one==1.1\n")
    assert first.is_relative_to(tmp_path / "cache")
    assert folder_of("one") != first


def test_a_program_runs_agents_when_it_is_told_and_leaves_their_files() -> None:
    with started(Contender("ours", "ours", words=("stock",))) as program:
        answer = program.run(2, 3)
        assert min(answer["seconds"], answer["cpu_seconds"], answer["peak_mb"]) > 0
        assert program.close() > 0


def test_a_program_that_cannot_start_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="has ended with 1"), started(Contender("nothing", "nothing")):
        pass


@pytest.fixture
async def model() -> AsyncIterator[openai.AsyncOpenAI]:
    with model_server() as address:
        async with openai.AsyncOpenAI(base_url=address, api_key="none") as client:
            yield client


async def test_the_model_calls_the_tool_as_often_as_it_is_told_then_answers(model: openai.AsyncOpenAI) -> None:
    messages: list[Any] = [{"role": "system", "content": "You look up orders."}, {"role": "user", "content": "2 0"}]
    orders = []
    while calls := (reply := await whole(model, messages)).tool_calls:
        orders.append(json.loads(calls[0].function.arguments)["order"])
        messages += [reply.model_dump(), {"role": "tool", "tool_call_id": calls[0].id, "content": "shipped"}]
    assert orders == ["ORD-00000", "ORD-00001"]
    assert reply.content == "All orders are on their way."


async def whole(model: openai.AsyncOpenAI, messages: list[Any]) -> Any:
    return (await model.chat.completions.create(model="m", messages=messages)).choices[0].message


async def test_a_streamed_reply_says_the_same_and_what_it_used(model: openai.AsyncOpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "1 5"}]}]
    stream = await model.chat.completions.create(model="m", messages=messages, stream=True)
    chunks = [chunk async for chunk in stream]
    calls = chunks[0].choices[0].delta.tool_calls
    assert calls is not None
    assert calls[0].id == "call_0"
    assert chunks[1].choices[0].finish_reason == "tool_calls"
    assert chunks[2].usage is not None
    assert chunks[2].usage.total_tokens == 120


def figures() -> results.Figures:
    each = [
        *(f"{key}_{name}" for key in results.IN_PROCESS for name in _IN_PROCESS),
        *(f"{server}_{key}" for server in ("ours", "agno") for key in results.OVER_HTTP),
        *(f"{key}_{name}" for key in results.RESUMED for name in ("resumed", "resumed_within_s")),
        *results.RATIOS,
    ]
    return {**dict.fromkeys(each, 7.0), "resume_runs": 20.0}


_IN_PROCESS = (
    "round_trip_ms",
    "round_trip_cpu_ms",
    "round_trips_per_s_200",
    "disk_bytes_per_round_trip",
    "peak_mb",
)


def test_a_part_alone_renews_its_own_figures_only(tmp_path: Path) -> None:
    results.keep(figures(), tmp_path)
    known = results.keep({"speedup_round_trip": 9.0}, tmp_path)
    assert known == {**figures(), "speedup_round_trip": 9.0}
    assert json.loads((tmp_path / "peers.json").read_text()) == known


def test_figures_become_a_table_and_a_picture(tmp_path: Path) -> None:
    results.keep(figures(), tmp_path)
    table = (tmp_path / "peers.md").read_text()
    for label in (*results.IN_PROCESS.values(), *results.RESUMED.values(), "server CPU per run", "deepagents 0."):
        assert label in table
    widths = [{line.count("|") for line in block.splitlines()} for block in table.split("\n\n")]
    assert [len(width) for width in widths] == [1, 1, 1, 1]
    picture = ElementTree.fromstring((tmp_path / "peers.svg").read_text())
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("7.0×") == len(results.RATIOS)


def test_the_manual_and_the_readme_have_what_was_measured() -> None:
    known = json.loads((results.FOLDER / "peers.json").read_text())
    for page, text in ((results.MANUAL, results.table(known)), (results.README, results.short(known))):
        assert pages.written(page.read_text(), "peers", text) == page.read_text()


def test_the_readme_says_only_what_was_measured() -> None:
    assert results.short(figures()).count("\n") == len(results.SHORT) + 1
    assert results.short({"resume_runs": 20, "ours_resumed": 20, "agno_resumed": 0}).splitlines()[2:] == [
        "| 20 runs at work, every process killed, started again | 20 complete by themselves | Agno AgentOS: 0 |"
    ]


def test_a_page_without_a_place_for_figures_is_left_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n")
    with pytest.raises(ValueError, match="has no place"):
        pages.write(page, "peers", "figures")
    assert page.read_text() == "# A page\n"


def test_speedups_are_against_the_like_of_each_peer() -> None:
    found = figures() | {"ours_stock_round_trip_ms": 2.0, "ours_round_trip_ms": 1.0, "deepagents_round_trip_ms": 30.0}
    speedups = in_process.speedups(found)
    assert speedups["speedup_round_trip"] == 15
    assert speedups["speedup_round_trip_pydantic_ai"] == 7


class Forgetful(Server):
    """Completes after its restart every run with an even number, and forgets the others."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "")
        self.done: list[str] = []
        self.starts = 0

    async def start(self, http: aiohttp.ClientSession) -> None:
        self.starts += 1

    async def run(self, http: aiohttp.ClientSession, message: str) -> None:
        self.done.append(message)

    async def begin(self, http: aiohttp.ClientSession, message: str) -> Begun:
        self.done.append(message)
        return Begun("", str(len(self.done)))

    async def has_completed(self, http: aiohttp.ClientSession, begun: Begun) -> bool:
        return self.starts == 2 and int(begun.session) % 2 == 0

    def kill(self) -> None:
        assert self.starts == 1

    def _command(self) -> list[str]:
        return []

    def _data(self) -> Path:
        return self.folder


async def test_runs_that_a_restarted_server_completes_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "KILL_AFTER", 0.0)
    monkeypatch.setattr(resume, "GIVE_UP_AFTER", 0.5)
    async with aiohttp.ClientSession() as http:
        completed, _ = await resume.resumed(Forgetful(tmp_path), http)
    assert completed == resume.RUNS // 2
