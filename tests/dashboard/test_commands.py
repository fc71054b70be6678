"""The commands that talk to a server, and those that need none: for people at a terminal, and for scripts in pipes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agency.client import Agency, Client, Thread
from agency.errors import InvalidInput, NotFound, Unavailable, VersionConflict, WrongState
from agency.events import Event
from agency.turn.state import Limits
from dashboard.command import app
from tests.support.gateways import Serve, Server
from tests.support.paths import ROOT
from tests.support.scripted_system import Line, calls, noting, say, script
from tests.support.terminals import COMMAND, agency, surroundings, terminal
from tests.support.waiting import eventually, eventually_sync


@pytest.fixture
def client(gateway: Server) -> Iterator[Client]:
    with Client(gateway.url) as client:
        yield client


@pytest.fixture
def bakery(client: Client) -> Agency:
    return client.create_agency("bakery")


@pytest.fixture
def run(gateway: Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command against the gateway, in this process: what it prints on stdout. Its errors are raised."""
    monkeypatch.setenv("AGENCY_URL", gateway.url)

    def run(*arguments: str, typed: str | None = None) -> str:
        done = CliRunner().invoke(app, arguments, input=typed)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def charge(ledger: Path, what: str) -> Line:
    return calls(("charge", {"ledger": str(ledger), "what": what}))


# What is used, and may be.


def test_usage_and_budget_are_shown_and_set(run: Any, bakery: Agency) -> None:
    thread = bakery.create_thread("broker", script(calls(("nothing", {})), say("done")))
    assert thread.wait(timeout=30).status == "completed"
    rows = [line.split("\t") for line in run("usage", "--agency", bakery.id).splitlines()]
    assert rows[0] == ["turns", "2", "0", "no limit"]
    assert rows[2:] == [["tokens", "30", "0", "no limit"], ["cost", "$0.03", "$0.00", "no limit"]]
    set_to = json.loads(run("budget", "--agency", bakery.id, "--cost-usd", "5", "--minutes", "1.5", "--json"))
    assert set_to["budget"] == {"turns": None, "timeMs": 90_000, "tokens": None, "costUsd": 5.0}
    rows = [line.split("\t") for line in run("budget", "--agency", bakery.id, "--tokens", "1000").splitlines()]
    assert [row[3] for row in rows] == ["no limit", "1.5", "1,000", "$5.00"]
    assert bakery.usage().budget.tokens == 1_000
    cleared = json.loads(run("budget", "--agency", bakery.id, "--unlimited", "--turns", "9", "--json"))
    assert cleared["budget"] == {"turns": 9, "timeMs": None, "tokens": None, "costUsd": None}
    with pytest.raises(InvalidInput, match="say how much"):
        run("budget", "--agency", bakery.id)


def test_a_run_that_has_used_up_a_limit_is_lifted(run: Any, bakery: Agency) -> None:
    lines = script(calls(("nothing", {})), say("done"))
    thread = bakery.create_thread("broker", lines, limits=Limits(cost_usd=0.01))
    assert thread.wait(timeout=30).errors[0].code == "ERR_COST_LIMIT"
    with pytest.raises(InvalidInput, match="say how much"):
        run("lift", f"{bakery.id}/{thread.id}")
    run("lift", f"{bakery.id}/{thread.id}", "--cost-usd", "1")
    assert thread.wait(timeout=30).data == "done"


def test_providers_are_put_listed_and_deleted(run: Any, bakery: Agency) -> None:
    where = ("--agency", bakery.id)
    entry = ("--base-url", "https://example.org/v1", "--key", "env:AGENCY_KEY_ROUTER", "--header", "X-Title=Bakery")
    made = json.loads(run("providers", "put", "router", *entry, "--json", *where))
    assert (made["entry"]["key"], made["entry"]["headers"]) == ("env:AGENCY_KEY_ROUTER", {"X-Title": "Bakery"})
    rows = {line.split("\t")[0]: line.split("\t")[1:4] for line in run("providers", *where).splitlines()}
    assert rows["router"] == ["agency", "https://example.org/v1", "env:AGENCY_KEY_ROUTER"]
    assert rows["demo"] == ["code", "", ""]
    run("providers", "delete", "router", *where)
    assert "router" not in {each.name for each in bakery.providers()}
    for wrong in (("--key", "sk-0123456789"), ("--header", "no value")):
        with pytest.raises(InvalidInput) as raised:
            run("providers", "put", "router", *wrong, *where)
        assert "sk-0123456789" not in str(raised.value)


# Looking.


def test_a_thread_is_forked_and_the_list_shows_of_which(run: Any, bakery: Agency) -> None:
    thread = bakery.create_thread("clerk", script(say("first")))
    thread.wait(timeout=30)
    name = f"{bakery.id}/{thread.id}"
    fork = bakery.thread(run("fork", name, script(say("second")), "--after", "1").strip().partition("/")[2])
    assert fork.wait(timeout=30).data == "second"
    asked = thread.state().state.messages[0].id
    made = json.loads(run("fork", name, "--before", asked, "--json"))
    assert (made["forkedFrom"], made["status"]) == ({"threadId": thread.id, "seq": 1}, "registered")
    rows = [line.split("\t") for line in run("threads", "--agency", bakery.id).splitlines()]
    assert sorted(row[6] for row in rows) == ["", f"{thread.id} after 1", f"{thread.id} after 1"]
    with pytest.raises(InvalidInput, match="not both"):
        run("fork", name, "--after", "1", "--before", asked)


def test_threads_are_listed_the_newest_first_with_what_they_do(run: Any, bakery: Agency, ledger: Path) -> None:
    done = bakery.create_thread("clerk", script(say("done")))
    waiting = bakery.create_thread("careful", script(charge(ledger, "it"), say("done")))
    for thread in (done, waiting):
        thread.wait(timeout=30)
    lines = [line.split("\t") for line in run("threads", "--agency", bakery.id).splitlines()]
    assert [line[:3] for line in lines] == [
        [f"{bakery.id}/{waiting.id}", "careful", "paused: hitl"],
        [f"{bakery.id}/{done.id}", "clerk", "completed"],
    ]
    found = json.loads(run("threads", "--agency", bakery.id, "--status", "completed", "--json"))
    assert [each["id"] for each in found["agents"]] == [done.id]
    assert len(run("threads", "--limit", "1").splitlines()) == 1
    assert run("rename", f"{bakery.id}/{done.id}", "The order of Petersen") == "The order of Petersen\n"
    (hit,) = (line.split("\t") for line in run("search", "petersen", "--agency", bakery.id).splitlines())
    assert (hit[0], hit[1], hit[3]) == (f"{bakery.id}/{done.id}", *["The order of Petersen"] * 2)
    (found,) = json.loads(run("search", "petersen", "--agency", bakery.id, "--json"))["hits"]
    assert (found["threadId"], found["foundIn"]) == (done.id, "title")


def test_logs_show_every_event_in_a_line_and_as_json_in_an_object(run: Any, bakery: Agency) -> None:
    thread = bakery.create_thread("clerk", script(say("It is [bold]on[/] its way.\x1b[31m")))
    thread.wait(timeout=30)
    lines = run("logs", f"{bakery.id}/{thread.id}").splitlines()
    stored = thread.stored_events()
    assert [line.split()[0] for line in lines] == [str(event.seq) for event in stored]
    assert any("agent.completed" in line and "It is [bold]on[/] its way.�[31m" in line for line in lines)
    assert "\x1b" not in "".join(lines)
    found = [json.loads(line) for line in run("logs", thread.id, "--after", "2", "--json").splitlines()]
    assert [event["seq"] for event in found] == [event.seq for event in stored if event.seq and event.seq > 2]


def test_calls_are_shown_whole_and_errors_with_their_tracebacks(run: Any, bakery: Agency) -> None:
    work = calls(("stumble", {"what": "left"}))
    thread = bakery.create_thread("clerk", script(work, say("done")))
    thread.wait(timeout=30)
    name = f"{bakery.id}/{thread.id}"
    first, last = (line.split("\t") for line in run("call", name).splitlines())
    assert (first[2], first[4], first[5]) == ("script:any", "success", "10 in, 5 out")
    shown = run("call", name, last[0])
    assert "Prompt, by planning" in shown and shown.endswith("Reply\ndone\n")
    assert json.loads(run("call", name, last[0], "--json"))["reply"]["content"] == "done"
    with pytest.raises(NotFound, match="over HTTP"):
        run("call", name, last[0], "--curl")
    (failed,) = [event for event in thread.stored_events() if event.type == "tool.error"]
    for which in ("c0.0.0", str(failed.seq)):
        told = run("call", name, which)
        assert "Output\nprinted by left\nWARNING shop: logged by left" in told
        assert told.endswith("LookupError: no left\n")
    with pytest.raises(InvalidInput, match="tells of no call"):
        run("call", name, "1")
    with pytest.raises(NotFound, match="no event 999"):
        run("call", name, "999")
    lines = run("logs", name, "--errors").splitlines()
    assert "tool.error" in lines[0] and lines[-1] == "LookupError: no left"
    eventually_sync(lambda: thread.id in run("logs", "--errors"))
    assert "in _stumble" in run("logs", "--errors") and "printed by left" in run("logs")


def test_what_is_not_there_is_said_with_where_to_look(run: Any, bakery: Agency) -> None:
    with pytest.raises(NotFound, match="agency threads"):
        run("logs", "thr_nowhere")
    with pytest.raises(NotFound):
        run("logs", f"{bakery.id}/thr_nowhere")
    with pytest.raises(InvalidInput, match="not in agency"):
        run("logs", f"{bakery.id}/thr_1", "--agency", "other")


@pytest.mark.kills
def test_following_logs_survives_a_gateway_that_is_killed(serve: Serve, ledger: Path) -> None:
    server = serve()
    with Client(server.url) as client:
        work = [calls(noting(ledger, f"{i}", 0.2)) for i in range(10)]
        thread = client.create_agency("bakery").create_thread("clerk", script(*work, say("done")))
    command = [*COMMAND, "logs", "-f", "--json", f"{thread.agency_id}/{thread.id}"]
    environment = surroundings(AGENCY_URL=server.url)
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seqs = []
        for line in process.stdout:
            event = json.loads(line)
            seqs.append(event["seq"])
            if len(seqs) == 8:
                server.kill()
                server.restart()
            if event["type"] == "agent.completed":
                break
        process.kill()
    assert seqs == list(range(1, len(seqs) + 1))


def test_without_a_server_it_says_how_to_start_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENCY_URL", "http://127.0.0.1:9")
    done = CliRunner().invoke(app, ["threads"])
    assert isinstance(done.exception, Unavailable)
    assert "agency serve" in str(done.exception)
    told = agency("threads", folder=tmp_path, AGENCY_URL="http://127.0.0.1:9")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("ERR_UNAVAILABLE no server answers at http://127.0.0.1:9")


def test_the_server_of_a_data_folder_is_found_by_itself(gateway: Server, bakery: Agency, tmp_path: Path) -> None:
    folder = tmp_path / "data"  # with the note of this gateway alone: others of its folder want a secret
    (folder / "gateways").mkdir(parents=True)
    notes = [path for path in (gateway.settings.data_dir / "gateways").iterdir() if gateway.url in path.read_text()]
    shutil.copy(notes[0], folder / "gateways")
    assert bakery.id in agency("agencies", "--data-dir", folder, folder=tmp_path).stdout
    assert bakery.id in agency("agencies", folder=tmp_path, AGENCY_DATA_DIR=str(folder)).stdout


# Answering.


def test_what_waits_is_listed_and_answered_from_the_command_line(run: Any, bakery: Agency, ledger: Path) -> None:
    thread = bakery.create_thread("careful", script(charge(ledger, "one"), charge(ledger, "two"), say("done")))
    thread.wait(timeout=30)
    (waiting,) = json.loads(run("approve", "--agency", bakery.id, "--json"))["approvals"]
    assert (waiting["threadId"], waiting["calls"][0]["name"]) == (thread.id, "charge")
    with pytest.raises(InvalidInput, match="pass --yes, --always, --deny REASON, --edit JSON or --respond TEXT"):
        run("approve", thread.id)
    with pytest.raises(InvalidInput, match="no JSON"):
        run("approve", thread.id, "--edit", "{nonsense")
    with pytest.raises(InvalidInput, match="does not wait"):
        run("approve", thread.id, "--yes", "--call", "another")
    changed = json.dumps({"ledger": str(ledger), "what": "less"})
    run("approve", thread.id, "--edit", changed, "--call", waiting["calls"][0]["id"])
    thread.wait(timeout=30)
    run("approve", thread.id, "--deny", "enough is enough")
    assert thread.wait(timeout=30).status == "completed"
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["charge:less"]
    assert "enough is enough" in str(thread.state().state.messages)
    with pytest.raises(WrongState):
        run("approve", thread.id, "--yes")


def test_calls_are_answered_in_a_tools_place_and_for_always(run: Any, bakery: Agency, ledger: Path) -> None:
    lines = script(charge(ledger, "one"), charge(ledger, "two"), charge(ledger, "three"), say("done"))
    thread = bakery.create_thread("careful", lines)
    thread.wait(timeout=30)
    assert f"{bakery.id}/{thread.id}  charge(" in run("inbox", "--agency", bakery.id)
    run("approve", thread.id, "--respond", "it was paid in cash")
    assert thread.wait(timeout=30).meta.pause_reason == "hitl"
    run("approve", thread.id, "--always")
    assert thread.wait(timeout=30).status == "completed"
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["charge:two", "charge:three"]
    assert json.loads(run("inbox", "--agency", bakery.id, "--json")) == {"approvals": [], "next": None}
    with pytest.raises(InvalidInput, match="exclude each other"):
        run("approve", thread.id, "--yes", "--always")


def test_a_run_is_paused_resumed_and_talked_to(run: Any, bakery: Agency) -> None:
    thread = bakery.create_thread("clerk", script(say("never said", delay=60)))
    refused = CliRunner().invoke(app, ["invoke", thread.id, "x", "--when", "soon"])
    assert (refused.exit_code, "next_run" in refused.output) == (2, True)
    queued = json.loads(run("invoke", thread.id, script(say("the second")), "--when", "next_run", "--json"))
    assert queued == {"runId": f"{thread.id}.2", "status": "queued"}
    run("pause", thread.id)
    with pytest.raises(WrongState):
        run("pause", thread.id)
    run("invoke", thread.id, script(say("the first")), "--when", "now")
    assert thread.wait(timeout=30).meta.pause_reason == "manual"
    run("resume", thread.id)
    results = [event.data["result"] for event in completions(thread, 2)]
    assert results == ["the first", "the second"]


def test_a_failed_run_is_tried_again(run: Any, bakery: Agency) -> None:
    thread = bakery.create_thread("clerk", script())  # the model has no line
    assert thread.wait(timeout=30).status == "error"
    assert json.loads(run("retry", thread.id, "--json")) == {"runId": f"{thread.id}.2", "status": "running"}
    thread.wait(timeout=30)
    run("cancel", thread.id)
    with pytest.raises(NotFound):
        run("retry", "nothing")


def test_what_an_agent_keeps_is_edited(run: Any, bakery: Agency) -> None:
    thread = bakery.create_thread("clerk", script(say("ready")))
    thread.wait(timeout=30)
    run("edit", thread.id, "todos", typed='[{"content": "bake"}]')
    run("edit", thread.id, "/a.md", typed="rye")
    kept = thread.state().state.model_extra or {}
    assert (kept["todos"], kept["files"]) == ([{"content": "bake", "status": "pending"}], {"/a.md": "rye"})
    run("edit", thread.id, "/a.md", "--delete")
    assert thread.files() == ()
    for part, problem in (("todos", "JSON list"), ("memory", "name `todos`")):
        with pytest.raises(InvalidInput, match=problem):
            run("edit", thread.id, part, typed="bake")


def test_a_fork_is_compared_with_its_original(run: Any, bakery: Agency, ledger: Path) -> None:
    thread = bakery.create_thread("clerk", script(say("rye")))
    thread.wait(timeout=30)
    fork = thread.fork(script(calls(noting(ledger, "one")), say("wheat")))
    fork.wait(timeout=30)
    found = json.loads(run("compare", thread.id, fork.id, "--json"))
    assert (found["common"], [each["calls"] for each in found["threads"]]) == (2, [{}, {"note": 1}])
    assert [each["thread"]["tokensUsed"]["input"] > 0 for each in found["threads"]] == [True, True]
    shown = run("compare", thread.id, fork.id)
    assert "calls since they part" in shown
    assert "the first 2 messages are the same" in shown and f"was forked from {thread.id}" in shown
    assert "both have the same 2 messages" in run("compare", thread.id, thread.id)


def completions(thread: Thread, count: int) -> list[Event]:
    found: list[Event] = []
    for event in thread.events():
        if event.type == "agent.completed":
            found.append(event)
        if len(found) == count:
            break
    return found


def test_a_policy_is_shown_and_set(run: Any, bakery: Agency) -> None:
    rules = {"rules": [{"tool": "charge", "when": None, "risk": "high"}], "timeoutMs": None, "onTimeout": "deny"}
    assert json.loads(run("policy", "--agency", bakery.id, "--set", json.dumps(rules))) == rules
    assert json.loads(run("policy", "--agency", bakery.id)) == rules
    for wrong in ("{", '{"rules": [{"tool": "charge"}]}'):
        with pytest.raises(InvalidInput):
            run("policy", "--agency", bakery.id, "--set", wrong)


def test_yes_approves_all_that_waits_in_an_agency(run: Any, bakery: Agency, ledger: Path) -> None:
    threads = [bakery.create_thread("careful", script(charge(ledger, str(n)), say("done"))) for n in range(2)]
    for thread in threads:
        thread.wait(timeout=30)
    run("approve", "--agency", bakery.id, "--yes")
    assert [thread.wait(timeout=30).status for thread in threads] == ["completed", "completed"]
    assert run("approve", "--agency", bakery.id) == ""


def test_at_a_terminal_each_call_is_shown_and_asked_about(gateway: Server, bakery: Agency, ledger: Path) -> None:
    thread = bakery.create_thread("careful", script(charge(ledger, "one"), say("done")))
    thread.wait(timeout=30)
    with terminal("approve", "--agency", bakery.id, folder=ledger.parent, AGENCY_URL=gateway.url) as screen:
        screen.until("approve?")
        assert f'charge(ledger="{ledger}", what="one")' in screen.screen.replace("\n", "")
        screen.type("perhaps\n")
        screen.until("approve?")
        screen.type("e\n")
        screen.until("arguments as JSON")
        screen.type('{"what": 1}\n')  # which the tool does not take
        screen.until("ERR_INVALID_INPUT")
        screen.until("approve?")
        screen.type("y\n")
        assert screen.end() == 0
    assert thread.wait(timeout=30).status == "completed"
    assert ledger.read_text().startswith("charge:one ")


async def test_a_run_is_canceled(run: Any, bakery: Agency, ledger: Path) -> None:
    thread = bakery.create_thread("clerk", script(calls(noting(ledger, "long", 60)), say("never")))
    await eventually(lambda: ledger.read_text())
    run("cancel", thread.id)
    assert thread.wait(timeout=30).status == "canceled"
    run("cancel", thread.id)  # which changes nothing
    assert thread.run().run_id == f"{thread.id}.1"


# Agencies and keys.


def test_agencies_are_made_and_listed(run: Any) -> None:
    (made,) = json.loads(run("agencies", "--create", "A new bakery", "--json"))["agencies"]
    assert made["name"] == "A new bakery"
    assert [made["id"], "A new bakery"] in [line.split("\t")[:2] for line in run("agencies").splitlines()]


def test_keys_are_made_listed_and_revoked(run: Any, client: Client, bakery: Agency, gateway: Server) -> None:
    of = ("--agency", bakery.id)
    text = run("keys", "create", "the shop", "--role", "viewer", *of).strip()
    with Client(gateway.url, secret=text) as holder:
        assert [each.id for each in holder.agencies()] == [bakery.id]
    (listed,) = json.loads(run("keys", "--json", *of))["keys"]
    assert (listed["name"], listed["role"]) == ("the shop", "viewer")
    assert text.rpartition(".")[2] not in run("keys", *of)
    run("keys", "revoke", listed["id"], *of)
    assert run("keys", *of) == ""
    client.create_agency("another")
    with pytest.raises(InvalidInput, match=f"--agency; there are .*{bakery.id}"):
        run("keys")


# Schedules.


def test_schedules_are_made_listed_paused_run_and_deleted(run: Any, bakery: Agency) -> None:
    of = ("--agency", bakery.id)
    wanted = ("rolls", "--agent", "clerk", "--message", script(say("done")), "--overlap", "allow")
    made = json.loads(run("schedules", "create", *wanted, "--every", "2h", "--json", *of))
    assert (made["kind"], made["everyMs"], made["overlap"]) == ("interval", 7_200_000, "allow")
    daily = run("schedules", "create", *wanted, "--cron", "0 6 * * *", "--timezone", "Europe/Berlin", *of)
    assert " is active, next at " in daily
    rows = [line.split("\t") for line in run("schedules", *of).splitlines()]
    assert [row[1:5] for row in rows] == [
        ["rolls", "clerk", "every 2h", "active"],
        ["rolls", "clerk", "0 6 * * * Europe/Berlin", "active"],
    ]
    with pytest.raises(InvalidInput, match="2 schedules are named 'rolls'"):
        run("schedules", "pause", "rolls", *of)
    assert bakery.change_schedule(made["id"], name="two-hourly rolls").id == made["id"]
    assert run("schedules", "pause", "two-hourly rolls", *of) == f"{made['id']} is paused\n"
    assert bakery.schedule("two-hourly rolls").status == "paused"
    assert json.loads(run("schedules", "resume", made["id"], "--json", *of))["status"] == "active"
    thread = run("schedules", "run", made["id"], *of).strip()
    assert bakery.thread(thread).wait(timeout=30).data == "done"
    (row,) = [line.split("\t") for line in run("schedules", "runs", made["id"], *of).splitlines()]
    assert row[1:] == ["person", "completed", thread]
    run("schedules", "delete", made["id"], *of)
    assert len(json.loads(run("schedules", "--json", *of))["schedules"]) == 1
    for wrong, said in (((), "say when"), (("--every", "soon"), "90s, 15m"), (("--at", "2020-01-01"), "is over")):
        with pytest.raises(InvalidInput, match=said):
            run("schedules", "create", *wanted, *wrong, *of)


# New projects, and the doctor.


def test_a_new_project_runs_and_its_test_passes(tmp_path: Path) -> None:
    made = agency("new", "my-shop", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert [line.strip().split()[0] for line in made.stdout.splitlines()] == ["cd", "agency", "agency"]
    project = tmp_path / "my-shop"
    assert {path.name for path in project.iterdir()} == {
        *("agents.py", "test_agents.py", "pyproject.toml", "README.md", ".gitignore")
    }
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tested = subprocess.run(tests, cwd=project, env=surroundings(), capture_output=True, text=True, timeout=60)
    assert tested.returncode == 0, tested.stdout
    ran = agency("run", "--system", "agents:system", "call look_up {}", folder=project)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", ["9lives", "..", "a b", "ünder", "-x/.."])
def test_a_project_with_a_bad_name_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["new", "--", name])
    assert isinstance(done.exception, InvalidInput)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine.txt").write_text("mine")
    done = CliRunner().invoke(app, ["new", str(tmp_path / "shop")])
    assert isinstance(done.exception, InvalidInput)
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["mine.txt"]


def test_the_doctor_finds_what_there_is(tmp_path: Path) -> None:
    done = agency("doctor", "--json", folder=tmp_path, OPENAI_API_KEY="sk-secret")
    assert done.returncode == 0, done.stdout
    found = {each["what"]: each for each in json.loads(done.stdout)["findings"]}
    assert {each["state"] for each in found.values()} <= {"ok", "warning"}
    assert {"Python", "Ray", "memory", "disk", "/dev/shm", "open files", "data folder", "installation"} <= set(found)
    assert (found["OPENAI_API_KEY"]["found"], "sk-secret" in done.stdout) == ("set", False)
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_says_which_agencies_may_use_a_key_and_where(tmp_path: Path) -> None:
    keys = '{"AGENCY_KEY_SAID": {"agencies": ["agc_1"], "hosts": ["api.openai.com"]}}'
    variables = {"AGENCY_KEY_SAID": "1", "AGENCY_KEY_SILENT": "2", "AGENCY_KEYS": keys}
    done = agency("doctor", "--json", folder=tmp_path, **variables)
    found = {each["what"]: (each["state"], each["found"]) for each in json.loads(done.stdout)["findings"]}
    assert found["AGENCY_KEY_SAID"] == ("ok", "for agc_1, at api.openai.com")
    assert found["AGENCY_KEY_SILENT"] == ("warning", "set, and no agency may use it")


def test_the_doctor_says_what_is_missing_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text(
        "from agency import AgentSystem\n"
        "system = AgentSystem('anthropic:some').add_agent(name='a', description='a', prompt='a')\n"
    )
    done = agency("doctor", "--system", "nowhere:system", folder=tmp_path, AGENCY_DATA_DIR="/proc/data")
    assert done.returncode == 1
    assert "✗ data folder" in done.stdout
    assert "→ name yours as --system module:name" in done.stdout
    needy = agency("doctor", "--system", "needy:system", folder=tmp_path, ANTHROPIC_API_KEY="")
    assert "! ANTHROPIC_API_KEY" in needy.stdout
    assert "\x1b" not in needy.stdout


# The command itself.


def test_commands_that_need_no_ray_do_not_wait_for_it() -> None:
    program = "import sys, dashboard.command; print(*{name.partition('.')[0] for name in sys.modules})"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert not {"ray", "actors", "fastapi", "uvicorn", "httpx"} & set(loaded)


def test_shells_complete_commands_and_choices() -> None:
    def complete(*words: str) -> list[str]:
        typed = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_AGENCY_COMPLETE": "complete_bash"}
        return CliRunner().invoke(app, [], prog_name="agency", env=typed).stdout.split()

    assert complete("agency", "lo") == ["logs"]
    assert complete("agency", "threads", "--status", "ca") == ["canceled"]


def test_every_command_explains_itself() -> None:
    listed = CliRunner().invoke(app, ["--help"]).stdout
    commands = [
        "run",
        "threads",
        "logs",
        "approve",
        "cancel",
        "agencies",
        "keys",
        "schedules",
        "new",
        "doctor",
        "serve",
        "status",
    ]
    for name in commands:
        assert f" {name} " in listed
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


# Shelves.


def test_entries_of_a_shelf_are_put_listed_got_and_deleted(run: Any, bakery: Agency, tmp_path: Path) -> None:
    mine = ("--agency", bakery.id)
    (tmp_path / "rye.md").write_bytes(b"# Rye \xff")
    made = json.loads(
        run("shelf", "put", "recipes", "bread/rye.md", str(tmp_path / "rye.md"), "--new", "--json", *mine)
    )
    assert run("shelf", "list", *mine).splitlines() == ["recipes\t1\t7"]
    (row,) = run("shelf", "list", "recipes", "--prefix", "bread/", *mine).splitlines()
    assert row.split("\t")[:3] == ["bread/rye.md", made["version"], "7"]
    assert json.loads(run("shelf", "list", "recipes", "--json", *mine))["entries"] == [made]
    assert json.loads(run("shelf", "list", "--json", *mine))["shelves"][0]["name"] == "recipes"
    run("shelf", "get", "recipes", "bread/rye.md", "-o", str(tmp_path / "copy"), *mine)
    assert (tmp_path / "copy").read_bytes() == b"# Rye \xff"
    put = ("shelf", "put", "recipes", "bread/rye.md", str(tmp_path / "copy"), *mine)
    for refused in ("--new", "--if-version=x"):
        with pytest.raises(VersionConflict):
            run(*put, refused)
    with pytest.raises(InvalidInput, match="not both"):
        run(*put, "--new", "--if-version=x")
    with pytest.raises(InvalidInput, match="cannot read"):
        run("shelf", "put", "recipes", "a", str(tmp_path / "missing"), *mine)
    with pytest.raises(InvalidInput, match="cannot write"):
        run("shelf", "get", "recipes", "bread/rye.md", "-o", str(tmp_path / "no" / "folder"), *mine)
    run(*put, f"--if-version={made['version']}")
    run("shelf", "delete", "recipes", "bread/rye.md", *mine)
    with pytest.raises(NotFound):
        run("shelf", "get", "recipes", "bread/rye.md", *mine)
    assert run("shelf", "list", *mine) == ""


def test_an_entry_goes_through_a_pipe_as_it_is(gateway: Server, bakery: Agency) -> None:
    there = [*COMMAND, "shelf"]
    options = ["--agency", bakery.id, "--url", gateway.url]
    content = bytes(range(256))
    subprocess.run([*there, "put", "raw", "bytes", "-", *options], input=content, check=True, capture_output=True)
    got = subprocess.run([*there, "get", "raw", "bytes", *options], check=True, capture_output=True)
    assert (got.stdout, got.stderr) == (content, b"version 1\n")
