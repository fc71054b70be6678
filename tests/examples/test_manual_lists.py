"""What the guides list is what there is: commands, routes, settings, events, methods, hooks, options, public names."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import agency
import middleware
from actors import Metrics, Settings
from agency import Blueprint, EventType, FileKeeper, Limits, Middleware, ModelParams, Provider, Snapshot
from agency.client import Agency, Client, Thread
from agency.define.tools import ToolOptions
from agency.schedules.schedule import Schedule
from dashboard.command import app
from dashboard.gateway.app import create_app
from dashboard.gateway.metrics import exposition
from dashboard.gateway.settings import GatewaySettings
from tests.support.manual import PAGES, blocks_of, commands_of
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
CODE = re.compile(r"`([^`\n]+)`")
VARIABLES = {"AGENCY_URL", "AGENCY_KEY_", "AGENCY_KEY_ROUTER"}
"""Those that are no settings: where clients find the server, and what the names of agencies' keys begin with."""


def rows(page: str, header: str) -> list[list[str]]:
    """The cells of the one table of a page that begins with this header."""
    _, _, rest = (DOCS / page).read_text().partition(f"\n| {header}")
    assert rest, f"{page} has no table that begins with {header!r}"
    lines = rest.splitlines()[2:]
    table = lines[: next(n for n, line in enumerate([*lines, ""]) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def names(cells: Iterable[str]) -> set[str]:
    """The names that cells begin their code with: `timeout=30` is timeout, `on_init(ctx)` is on_init."""
    found = (re.match(r"(?:async )?(\w+)", code) for cell in cells for code in CODE.findall(cell))
    return {match[1] for match in found if match}


def listed(page: str, header: str) -> set[str]:
    return names(row[0] for row in rows(page, header))


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("page", "header", "known"),
    [
        ("agents.md", "option | default", set(Blueprint.model_fields)),
        ("agents.md", "option of `@tool`", set(ToolOptions.__annotations__)),
        ("middleware.md", "method | meaning", public(FileKeeper)),
        ("models.md", "parameter | values", set(ModelParams.model_fields)),
        ("observability.md", "field | |", set(Snapshot.model_fields)),
    ],
)
def test_a_table_lists_all_there_is(page: str, header: str, known: set[str]) -> None:
    assert listed(page, header) == known


def test_fields_are_listed_with_the_names_that_they_have_as_json() -> None:
    for page, header, model in (
        ("models.md", "field (JSON name)", Provider),
        ("steering.md", "limit (JSON name)", Limits),
        ("schedules.md", "field (JSON name)", Schedule),
    ):
        fields = [CODE.findall(row[0]) for row in rows(page, header)]
        assert {field[0] for field in fields} == set(model.model_fields) - {"status"}
        assert {field[-1] for field in fields} == {model.model_fields[name[0]].alias or name[0] for name in fields}


DESCRIBES = frozenset(
    {"name", "tags", "config_model", "options_model", "tables", "secrets", "check", "own_agents"}
    | {"guards_risk", "registers", "check_tools", "guards", "decision_ms"}
)
"""What a middleware says about itself."""


def test_every_hook_is_listed() -> None:
    hooks = {name for name in public(Middleware) if name not in DESCRIBES}
    assert listed("middleware.md", "hook | when") == hooks


def test_every_stock_middleware_is_listed() -> None:
    assert listed("middleware.md", "middleware | tools") == set(middleware.__all__)
    reference = (DOCS / "reference" / "middleware.md").read_text()
    assert set(re.findall(r"^::: middleware\.(\w+)", reference, re.MULTILINE)) == set(middleware.__all__)


def test_every_event_is_listed() -> None:
    assert {code for row in rows("api.md", "type | data") for code in CODE.findall(row[0])} == set(EventType)


def test_every_method_of_the_clients_is_listed() -> None:
    found: dict[str, set[str]] = {}
    for whose, methods in rows("api.md", "| methods"):
        found.setdefault(CODE.findall(whose)[0], set()).update({*CODE.findall(methods)} - {"id", "agency_id"})
    assert found == {kind.__name__: public(kind) for kind in (Client, Agency, Thread)}


def test_every_setting_is_listed_and_every_variable_is_one() -> None:
    installation = {f"AGENCY_{name.upper()}" for name in Settings.model_fields if name not in {"build", "environment"}}
    gateway = {f"AGENCY_{name.upper()}" for name in GatewaySettings.model_fields}
    assert listed("operating.md", "variable of the installation") == installation
    assert listed("operating.md", "variable of a gateway") == gateway
    for page in PAGES:
        used = set(re.findall(r"\bAGENCY_[A-Z_]+", page.read_text()))
        assert used <= installation | gateway | VARIABLES, page.name


def test_every_metric_is_listed() -> None:
    shown = exposition(
        Metrics(uptime_seconds=1, hosts={}, awake=0, hibernated=0, approvals_waiting=0, alarms=0)
    ).decode()
    known = {name for name in re.findall(r"^# TYPE (\w+)", shown, re.MULTILINE) if not name.endswith("_created")}
    assert listed("observability.md", "metric | |") == known


# Routes.


@functools.cache
def routes_of_the_gateway() -> set[tuple[str, str]]:
    document = create_app(GatewaySettings()).openapi()["paths"]
    known = {(method.upper(), _short(path)) for path, methods in document.items() for method in methods}
    return known | {("WS", f"/agency/{{a}}{path}") for path in ("/ws", "/agent/{t}", "/agent/{t}/ws")}


def _short(path: str) -> str:
    """A path as the guides write it: `{agency_id}` is `{a}`."""
    return re.sub(r"{(\w)\w*_id}", r"{\1}", path)


def routes_in(text: str) -> Iterator[tuple[str, str]]:
    """The routes that a text names in code: methods, then a path, or another path for the same methods."""
    methods: list[str] = []
    path = ""
    for code in CODE.findall(text):
        found = re.match(r"(?:(GET|POST|PUT|PATCH|DELETE|WS)\b ?)?([/…][^\s?]*)?", code)
        assert found is not None
        if found[1] and path:
            methods, path = [], ""
        if found[1]:
            methods.append(found[1])
        if found[2]:
            path = found[2]
            yield from ((method, path) for method in methods)


def test_every_route_is_listed() -> None:
    known = routes_of_the_gateway()
    found: set[tuple[str, str]] = set()
    for row in rows("api.md", "route | what"):
        for method, path in routes_in(row[0]):
            meant = {each for each in known if each[0] == method and each[1].endswith(path.removeprefix("…"))}
            assert meant, f"there is no {method} {path}"
            found |= meant if "…" in path else {(method, path)}
    assert found == known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_routes_that_there_are(page: Path) -> None:
    known = routes_of_the_gateway()
    for code in CODE.findall(page.read_text()):
        if found := re.fullmatch(r"(GET|POST|PUT|PATCH|DELETE|WS) ([/…][^\s?]*)(\?.*)?", code):
            end = found[2].removeprefix("…")
            assert any(method == found[1] and path.endswith(end) for method, path in known), code


# Commands.


@functools.cache
def the_command() -> TyperGroup:
    found = get_command(app)
    assert isinstance(found, TyperGroup)
    return found


def commands_on(page: Path) -> Iterator[str]:
    """The `agency` commands of a page's blocks and of its sentences."""
    for block in blocks_of(page):
        if block.language == "sh":
            yield from (each for each in commands_of(block.code) if each.startswith("agency "))
    without_blocks = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    yield from (code for code in CODE.findall(without_blocks) if re.match(r"agency [a-z-]", code))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_commands_and_options_that_there_are(page: Path) -> None:
    for line in commands_on(page):
        words = shlex.split(re.split(r"[;|>]", line)[0])[1:]
        options = options_of(words, the_command(), line)
        for word in words:
            assert not word.startswith("-") or word in options, f"{line}: there is no option {word}"


def options_of(words: list[str], group: TyperGroup, line: str) -> set[str]:
    """The options of the command that these words begin with."""
    if not words or words[0].startswith("-"):
        return {option for parameter in group.params for option in parameter.opts}
    assert words[0] in group.commands, f"{line}: there is no command {words[0]}"
    command = group.commands[words[0]]
    if isinstance(command, TyperGroup):
        return options_of(words[1:], command, line)
    return {"--help", *(option for parameter in command.params for option in parameter.opts)}


def test_every_command_is_listed() -> None:
    shown = " ".join(CODE.findall(" ".join(row[0] for row in rows("command.md", "command | what"))))
    for name, command in the_command().commands.items():
        assert re.search(rf"\b{name}\b", shown), name
        if isinstance(command, TyperGroup):
            (cell,) = [row[0] for row in rows("command.md", "command | what") if f"agency {name} " in row[0]]
            assert all(f"{each}`" in cell for each in command.commands), name


# The reference.


def test_the_reference_has_every_public_name_and_members_that_there_are() -> None:
    page = (DOCS / "reference" / "agency.md").read_text()
    shown = re.findall(r"^::: agency\.(\w+)$", page, re.MULTILINE)
    errors = {name for name in agency.__all__ if issubclass(_as_class(getattr(agency, name)), agency.AgencyError)}
    assert sorted({*shown, *errors} - {"errors"}) == sorted(agency.__all__)
    assert len(shown) == len(set(shown))
    for name, members in re.findall(r"^::: agency\.(\w+)\n(?:    .*\n)*?      members: \[(.+)\]", page, re.MULTILINE):
        annotated = getattr(getattr(agency, name), "__annotations__", {})
        for member in members.split(", "):
            assert member in annotated or hasattr(getattr(agency, name), member), f"{name}.{member}"


def _as_class(given: object) -> type:
    return given if isinstance(given, type) else object


def test_every_attack_names_tests_that_there_are() -> None:
    """A list of attacks is worth what proves it."""
    _, _, attacks = (DOCS / "threat-model.md").read_text().partition("\n## Attacks that were tried\n")
    listed = [line for line in attacks.splitlines() if re.match(r"\| (?!attack |event |---)", line)]
    assert len(listed) > 40
    for line in listed:
        proofs = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line)
        assert proofs, f"nothing proves {line!r}"
        for path, name in proofs:
            there = ROOT / path
            assert there.exists() and f"def {name}(" in there.read_text(), f"there is no {path}::{name}"
