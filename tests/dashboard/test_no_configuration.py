"""Without a system: a general agent if a model's key is there, else the demo; and how the terminal shows figures."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from agency.errors import InvalidInput
from dashboard.command.installation import DEMO, GENERAL, chosen
from dashboard.command.terminal import console
from dashboard.command.terminal.rendering import dollars
from dashboard.gateway.problems import without_paths
from tests.support.model_script import Reply
from tests.support.model_server import KEY, ModelServer
from tests.support.terminals import agency


@pytest.mark.parametrize(
    ("system", "variables", "demo", "model", "expected"),
    [
        (None, {}, False, None, DEMO),
        (None, {"OPENAI_API_KEY": "k"}, False, None, GENERAL),
        (None, {"ANTHROPIC_API_KEY": "k"}, False, None, GENERAL),
        (None, {"OPENAI_API_KEY": "k"}, True, None, DEMO),
        (None, {"OPENAI_API_KEY": "k", "AGENCY_SYSTEM": "shop:system"}, False, None, "shop:system"),
        ("shop:system", {"OPENAI_API_KEY": "k"}, False, None, "shop:system"),
        (None, {}, False, "groq:openai/gpt-oss-120b", GENERAL),
        (None, {}, False, "demo:instant", DEMO),
    ],
)
def test_which_system_it_is(
    system: str | None,
    variables: dict[str, str],
    demo: bool,
    model: str | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AGENCY_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert chosen(system, demo=demo, model=model) == expected
    with pytest.raises(InvalidInput, match="or --demo"):
        chosen("shop:system", demo=True)


async def test_a_key_is_all_that_a_run_needs(tmp_path: Path) -> None:
    async with ModelServer([Reply(text=("Hello!",))]) as server:
        variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{server.url}/v1", "no_proxy": "127.0.0.1"}
        done = await asyncio.to_thread(partial(agency, "run", "Hi?", folder=tmp_path, **variables))
    assert (done.returncode, done.stdout) == (0, "Hello!\n"), done.stderr
    assert "a general agent on openai:gpt-5.4-mini, because OPENAI_API_KEY is set; --demo is" in done.stderr
    assert server.requests[0].body["model"] == "gpt-5.4-mini"
    assert "write_todos" in str(server.requests[0].body["tools"]), "it has the default middleware"


def test_what_strangers_are_told_names_no_folder() -> None:
    told = (
        "cannot load shop:system: [Errno 2] No such file or directory: '/srv/shop/key.json' (looked in /srv/shop too)"
    )
    assert without_paths(told) == (
        "cannot load shop:system: [Errno 2] No such file or directory: '…' (looked in … too)"
    )
    assert without_paths("see http://127.0.0.1/docs/x") == "see http://127.0.0.1/docs/x"
    assert without_paths("/data is full, and and/or '/srv/my shop/key' \"/x y\" too") == (
        "… is full, and and/or '…' \"…\" too"
    )


def test_small_costs_have_no_exponent() -> None:
    costs = {0: "$0.00", 0.00006: "$0.00006", 0.000123: "$0.00012", 0.0042: "$0.0042", 0.02: "$0.02", 3: "$3.00"}
    assert {cost: dollars(cost) for cost in costs} == costs


def test_what_other_commands_take_is_never_cut_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "out", Console(width=60, force_terminal=True, color_system=None))
    name = f"agc_{'0' * 16}/thr_{'1' * 20}"
    console.print_table(
        ("thread", "agent", "status"), [(name, "manager of the whole bakery", "paused: waits for a person")]
    )
    assert name in capsys.readouterr().out
