"""`agency new`: create a project with an agent that runs and a test that passes."""

from __future__ import annotations

import re
import shlex
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from agency.errors import InvalidInput
from dashboard.command.terminal.console import app, err, out

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,62}")
TASK = "What do we know about bread?"
ENDING = ".tmpl"
RENAMED = {"gitignore": ".gitignore"}
"""Templates that must not have their real names in this repository, where those would take effect."""


@app.command()
def new(name: Annotated[str, typer.Argument(help="The folder to create; its last part names the project.")]) -> None:
    """Create a project: an agent with a tool, on the offline model, and a test."""
    folder = Path(name)
    project = folder.absolute().name
    if not _NAME.fullmatch(project):
        raise InvalidInput(
            f"a project's name begins with a letter and has letters, digits, '-' and '_', not {project!r}"
        )
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InvalidInput(f"{folder} is there already, and not empty")
    write(folder, project)
    err.print(f"made {folder}; next:\n", highlight=False, markup=False)
    for command in (
        f"cd {shlex.quote(str(folder))}",
        "agency serve agents:system",
        f'agency run --system agents:system "{TASK}"',
    ):
        out.print(f"  {command}", highlight=False, markup=False, soft_wrap=True)


def write(folder: Path, project: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for template in sorted(resources.files("dashboard.starter").iterdir(), key=lambda each: each.name):
        if template.name.endswith(ENDING):
            name = template.name.removesuffix(ENDING)
            text = template.read_text(encoding="utf-8").format(name=project, package=project.lower())
            (folder / RENAMED.get(name, name)).write_text(text, encoding="utf-8")
