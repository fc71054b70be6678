"""`agency extensions`, and the commands that middleware bring: `agency <middleware> <command>`.

The one idea: those commands are data from the server. A command that `agency` does not know itself is looked for there,
and becomes a request to a route: its path's names are arguments, the fields of its body are options. Nothing that a
server sends is run here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from pydantic import JsonValue

from agency.errors import InvalidInput, NotFound, Unavailable
from agency.extension import option_of
from dashboard.command.terminal.console import AsJson, DataDir, app, err, out, print_json, print_table
from dashboard.command.terminal.rendering import clean
from dashboard.command.terminal.targets import OneAgency, ServerUrl, server, the_agency

if TYPE_CHECKING:
    from agency.api.extensions import ExtensionCommand, ExtensionInfo, ExtensionRoute

KINDS: Mapping[object, type] = {"integer": int, "number": float, "boolean": bool}
COMMON = {"agency": OneAgency, "url": ServerUrl, "data_dir": DataDir, "as_json": AsJson}


@app.command()
def extensions(url: ServerUrl = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List what the middleware of the server bring: commands, panels of the dashboard, routes."""
    with server(url, data_dir) as client:
        found = client.extensions()
    if as_json:
        print_json(found)
        return
    rows = [
        (each.name, " ".join(one.name for one in each.commands), ", ".join(one.title for one in each.panels))
        for each in found.extensions
    ]
    print_table(("extension", "commands", "panels"), [tuple(clean(cell) for cell in row) for row in rows])


def brought(name: str, arguments: Sequence[str]) -> typer.Typer | None:
    """The commands that the server has under a name, if it has any."""
    data_dir = _option(arguments, "--data-dir")
    try:
        with server(_option(arguments, "--url"), None if data_dir is None else Path(data_dir)) as client:
            found = next((each for each in client.extensions().extensions if each.name == name), None)
    except (NotFound, Unavailable) as error:
        raise NotFound(f"there is no command {name!r} here, and no server that could bring it: {error}") from error
    return _group(found) if found is not None and found.commands else None


def _option(arguments: Sequence[str], name: str) -> str | None:
    """An option that has to be known before there is a parser for it."""
    for at, each in enumerate(arguments):
        if each == name:
            return next(iter(arguments[at + 1 :]), None)
        if each.startswith(f"{name}="):
            return each.partition("=")[2]
    return None


def _group(extension: ExtensionInfo) -> typer.Typer:
    group = typer.Typer(name=extension.name, help=f"Commands of {extension.name}.", no_args_is_help=True)
    group.callback()(lambda: None)  # so that a group of one command is a group
    for each in extension.commands:
        group.command(each.name, help=clean(each.route.description))(_command(extension.name, each))
    return group


def _command(extension: str, command: ExtensionCommand) -> Callable[..., None]:
    """A function with the parameters of a route, from which typer makes a command."""
    route, fields = command.route, _fields(command.route)
    names = re.findall(r"\{(\w+)\}", route.path)
    annotations: dict[str, Any] = {name: Annotated[str, typer.Argument(show_default=False)] for name in names}
    annotations |= {f"field_{at}": _annotation(*each) for at, each in enumerate(fields.items())}

    def run(**given: Any) -> None:
        path = re.sub(r"\{(\w+)\}", lambda found: quote(given[found[1]], safe=""), route.path)
        values = {name: _value(fields[name], given[f"field_{at}"]) for at, name in enumerate(fields)}
        body: JsonValue = {name: value for name, value in values.items() if value is not None}
        sent = None if route.body is None else body
        with server(given["url"], given["data_dir"]) as client:
            answer = the_agency(client, given["agency"]).extension(extension, route.method, path, sent)
        _print(answer, command.show, as_json=given["as_json"])

    required = set(_strings((route.body or {}).get("required")))
    defaults = {f"field_{at}": None for at, name in enumerate(fields) if name not in required} | {"as_json": False}
    defaults |= {"agency": None, "url": None, "data_dir": None}
    annotations |= COMMON
    ordered = sorted(annotations, key=lambda name: name in defaults)
    run.__annotations__ = annotations
    run.__signature__ = Signature(  # type: ignore[attr-defined]  # functions may have one
        [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                annotation=annotations[name],
                default=defaults.get(name, Parameter.empty) if name in defaults else Parameter.empty,
            )
            for name in ordered
        ]
    )
    return run


def _fields(route: ExtensionRoute) -> dict[str, dict[str, JsonValue]]:
    properties = (route.body or {}).get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: schema if isinstance(schema, dict) else {} for name, schema in properties.items()}


def _annotation(name: str, schema: dict[str, JsonValue]) -> Any:
    option = option_of(name)
    about = " ".join(part for part in (str(schema.get("description", "")), _choices(schema)) if part)
    kind = KINDS.get(schema.get("type"), str)
    flags = f"--{option}/--no-{option}" if kind is bool else f"--{option}"
    return Annotated[kind | None, typer.Option(flags, help=clean(about), show_default=False)]


def _choices(schema: dict[str, JsonValue]) -> str:
    listed = _strings(schema.get("enum"))
    if listed:
        return f"One of {', '.join(listed)}."
    return "" if schema.get("type") in (*KINDS, "string") else "JSON."


def _strings(value: JsonValue) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _value(schema: dict[str, JsonValue], given: JsonValue) -> JsonValue:
    """What an option says: text as it is or, after an @, the content of a file; other types as JSON."""
    if not isinstance(given, str):
        return given  # typer has read it as one of KINDS
    if given.startswith("@"):
        try:
            given = Path(given[1:]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"cannot read {given[1:]}: {error}") from error
    if schema.get("type") == "string" or "enum" in schema:
        return given
    try:
        value: JsonValue = json.loads(given)
    except ValueError as error:
        raise InvalidInput(f"that is no JSON: {given[:100]}") from error
    return value


def _print(answer: JsonValue, show: str, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(answer, indent=2, ensure_ascii=False) + "\n")
    elif answer is None:
        err.print("done")
    elif isinstance(answer, list) and show == "table":
        rows = [each for each in answer if isinstance(each, dict)]
        headings = list(dict.fromkeys(name for row in rows for name in row))
        print_table(headings, [[_cell(row.get(name)) for name in headings] for row in rows])
    elif isinstance(answer, dict):
        print_table(("", ""), [(clean(name), _cell(value)) for name, value in answer.items()])
    else:
        out.print(_cell(answer), markup=False, highlight=False, soft_wrap=True)


def _cell(value: JsonValue) -> str:
    if value is None:
        return ""
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
