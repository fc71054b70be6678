"""`agency run`: one task in the terminal, approved there, killed there, and taken up again."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agency.client import Client
from agency.errors import AgencyError
from dashboard.command import app
from tests.support.gateways import Server
from tests.support.model_script import Reply
from tests.support.model_server import KEY, ModelServer
from tests.support.scripted_system import calls, say, script
from tests.support.terminals import agency, terminal

SYSTEM = """
import asyncio
from pathlib import Path

from agency import AgentSystem, tool
from middleware import hitl


@tool(risk="high", idempotent=False)
async def publish(path: str) -> str:
    '''Publish a file.'''
    with Path("published").open("a") as file:
        file.write(path + "\\n")
    return f"{path} is public"


@tool(safe=True)
async def ponder(seconds: float) -> str:
    '''Think about it.'''
    Path("pondering").touch()
    await asyncio.sleep(seconds)
    return "pondered"


AGENT = "author"
system = (
    AgentSystem("demo:instant")
    .defaults()
    .use(hitl, tags=["careful"])
    .add_tool(publish, tags=["publishing"])
    .add_tool(ponder, tags=["pondering"])
    .add_agent(name="helper", description="Helps.", prompt="You help.", tags=["pondering"])
    .add_agent(
        name="editor",
        description="Publishes for others.",
        prompt="You publish.",
        tags=["publishing", "careful"],
        config={"hitl": {"tools": ["publish"]}},
    )
    .add_agent(
        name="author",
        description="Writes.",
        prompt="You write.",
        tags=["default", "publishing", "careful"],
        config={"hitl": {"tools": ["publish"]}},
    )
)
"""

PUBLISH = 'call publish {"path": "/draft.md"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "office.py").write_text(SYSTEM)
    return tmp_path


def published(folder: Path) -> list[str]:
    path = folder / "published"
    return path.read_text().splitlines() if path.exists() else []


def only_run(folder: Path) -> str:
    (run,) = (folder / "data" / "runs").iterdir()
    return run.name


HERE = ("--system", "office:system")


def test_in_a_pipe_the_result_and_nothing_else_is_on_stdout(folder: Path) -> None:
    done = agency("run", "echo [bold]Hello[/]", *HERE, folder=folder)
    assert (done.returncode, done.stdout) == (0, "[bold]Hello[/]\n")
    assert done.stderr.startswith("completed: 1 turn, ")
    assert "\x1b" not in done.stderr


def test_progress_tells_of_the_plan_of_calls_and_of_subagents(folder: Path) -> None:
    done = agency("run", "Should we bake more?", "--yes", *HERE, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "▶ Ask helper and editor" in done.stderr
    assert "  helper  ✓ ponder(seconds=1)" in done.stderr
    assert "  editor  ✓ publish(path=" in done.stderr
    assert "✓ helper: " in done.stderr
    assert "✋ approve publish" in done.stderr
    assert len(published(folder)) == 2  # the editor's, and its own


async def test_models_of_the_settings_are_used_and_what_fails_and_what_it_costs_is_told(folder: Path) -> None:
    (folder / "routed.py").write_text(
        "from agency import AgentSystem\n"
        "system = AgentSystem('routed:m').add_agent(\n"
        "    name='author', description='Writes.', prompt='-', model=['routed:m', 'routed:n'])\n"
    )
    script = [Reply(status=529, error={"message": "busy"}), Reply(text=("Hello!",))]
    async with ModelServer(script) as server:
        prices = {"n": {"input": 1_000.0, "output": 2_000.0}}
        entry = {"api": "openai", "baseUrl": f"{server.url}/v1", "key": "env:ROUTED_KEY", "prices": prices}
        variables = {"AGENCY_PROVIDERS": json.dumps({"routed": entry}), "ROUTED_KEY": KEY, "no_proxy": "127.0.0.1"}
        run = partial(agency, "run", "Hi?", "--system", "routed:system", folder=folder, **variables)
        done = await asyncio.to_thread(run)
    assert (done.returncode, done.stdout) == (0, "Hello!\n"), done.stderr
    assert "✗ ERR_OVERLOADED " in done.stderr and "→ routed:n" in done.stderr
    assert "15 tokens, $0.02, " in done.stderr
    assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {KEY}"] * 2
    assert KEY not in done.stderr


def test_providers_that_cannot_be_read_are_told_of_and_not_repeated(folder: Path) -> None:
    done = agency(
        "run", "echo hi", *HERE, folder=folder, AGENCY_PROVIDERS=f'{{"x": {{"api": "openai", "key": "{KEY}"}}}}'
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "AGENCY_PROVIDERS: x.key: " in done.stderr and KEY not in done.stderr


def test_as_json_it_is_the_envelope(folder: Path) -> None:
    done = agency("run", "echo hi", "--json", *HERE, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["data"] == "hi"


def test_without_anybody_to_ask_it_stops_says_what_waits_and_can_be_continued(folder: Path) -> None:
    done = agency("run", PUBLISH, *HERE, folder=folder)
    assert (done.returncode, done.stdout, published(folder)) == (3, "", [])
    assert 'publish(path="/draft.md")' in done.stderr
    again = f"agency run --continue {only_run(folder)}"
    assert again in done.stderr
    waiting = agency(*again.split()[1:], "--json", folder=folder)
    assert waiting.returncode == 3
    assert json.loads(waiting.stdout)["meta"]["pendingToolCalls"][0]["name"] == "publish"
    ended = agency(*again.split()[1:], "--yes", folder=folder)
    assert (ended.returncode, published(folder)) == (0, ["/draft.md"])
    more = agency(*again.split()[1:], "echo and more", folder=folder)
    assert (more.returncode, more.stdout) == (0, "and more\n")


def test_a_call_of_a_subagent_waits_too(folder: Path) -> None:
    order = json.dumps({"description": PUBLISH, "subagentType": "editor"})
    done = agency("run", f"call task {order}", *HERE, folder=folder)
    assert (done.returncode, published(folder)) == (3, []), done.stderr
    assert 'publish(path="/draft.md")' in done.stderr
    ended = agency("run", "--continue", only_run(folder), "--yes", folder=folder)
    assert (ended.returncode, published(folder)) == (0, ["/draft.md"]), ended.stderr


def test_at_a_terminal_it_asks_and_does_what_it_is_told(folder: Path) -> None:
    order = f"{PUBLISH}\n{PUBLISH.replace('draft', 'other')}"
    with terminal("run", order, *HERE, folder=folder) as screen:
        screen.until("approve?")
        screen.type("e\n")
        screen.until("arguments as JSON")
        screen.type('{"path": "/edited.md"}\n')
        screen.until("approve?")
        screen.type("n\n")
        screen.until("why not?")
        screen.type("it is too early\n")
        screen.until("completed: 2 turns")
        assert screen.end() == 0
        assert screen.colours
    assert published(folder) == ["/edited.md"]
    assert "it is too early" in screen.screen


def test_ctrl_c_cancels_the_run_and_its_subagents(folder: Path) -> None:
    order = json.dumps({"description": 'call ponder {"seconds": 60}', "subagentType": "helper"})
    with terminal("run", f"call task {order}", *HERE, folder=folder) as screen:
        screen.until("ponder(seconds=60)")
        screen.interrupt()
        screen.until("canceled: ")
        assert screen.end() == 130
    looked = agency("run", "--continue", only_run(folder), "--json", folder=folder)
    assert (looked.returncode, json.loads(looked.stdout)["status"]) == (130, "canceled")


def test_ctrl_c_at_a_question_cancels_it_too(folder: Path) -> None:
    with terminal("run", PUBLISH, *HERE, folder=folder) as screen:
        screen.until("approve?")
        screen.interrupt()
        assert screen.end() == 130
    assert published(folder) == []


@pytest.mark.kills
def test_a_run_that_was_killed_goes_on(folder: Path) -> None:
    with terminal("run", 'call ponder {"seconds": 1.5}', "--agent", "helper", *HERE, folder=folder) as screen:
        screen.until("ponder(seconds=1.5)")
        screen.kill()
    done = agency("run", "--continue", only_run(folder), folder=folder)
    assert done.returncode == 0, done.stderr
    assert "pondered" in done.stdout


def test_two_runs_do_not_get_in_each_others_way_and_one_is_not_run_twice(folder: Path) -> None:
    with terminal("run", 'call ponder {"seconds": 60}', "--agent", "helper", *HERE, folder=folder) as screen:
        screen.until("ponder(seconds=60)")
        busy = agency("run", "--continue", only_run(folder), folder=folder)
        assert (busy.returncode, "another process" in busy.stderr) == (1, True)
        assert agency("run", "echo beside it", *HERE, folder=folder).stdout == "beside it\n"
        screen.interrupt()
        assert screen.end() == 130


def test_a_run_that_fails_says_why(folder: Path) -> None:
    done = agency("run", "fail", *HERE, folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "ERR_API the demo model fails" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["x", "--agent", "nobody"], "there are researcher, critic, manager"),
        (["x", "--system", "nowhere:system"], "No module named 'nowhere'"),
        (["--continue", "thr_nowhere"], "there is no run 'thr_nowhere'"),
        (["--continue", "../../etc"], "there is no run"),
        (["--system", "office:system"], "say what to do"),
        (["x", "--system", "office:system", "--url", "http://127.0.0.1:9"], "say --system or --url"),
        (["x", "--url", "http://127.0.0.1:9"], "agency serve"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_left_behind(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["run", *arguments])
    assert isinstance(done.exception, AgencyError)
    assert told in str(done.exception)
    assert not list(tmp_path.glob("data/runs/*"))


def test_the_same_at_a_server(gateway: Server, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    with Client(gateway.url) as client:
        bakery = client.create_agency("bakery")
        charge = calls(("charge", {"ledger": str(ledger), "what": "it"}))
        order = script(charge, say("charged"))
        at = ("--url", gateway.url, "--agency", bakery.id)
        done = agency("run", order, "--agent", "careful", *at, folder=tmp_path)
        assert done.returncode == 3, done.stderr
        (thread,) = bakery.threads()
        assert f"agency run --continue {bakery.id}/{thread.id} --url={gateway.url}" in done.stderr
        with terminal("run", "--continue", f"{bakery.id}/{thread.id}", *at[:2], folder=tmp_path) as screen:
            screen.until("approve?")
            screen.type("y\n")
            screen.until("completed: 2 turns")
            assert screen.end() == 0
        assert ledger.read_text().startswith("charge:it ")
        unnamed = agency("run", order, *at, folder=tmp_path)
        assert (unnamed.returncode, "name an agent with --agent" in unnamed.stderr) == (1, True)
