"""The pages of the manual, and running their code blocks as a reader would: from the top to the bottom, in one folder.

- ```` ```python title="support.py" ```` is a file. It is written, for the blocks after it.
- ```` ```python ```` is run. It has the names of the blocks before it.
- ```` ```sh ```` is run, command by command. `agency serve` goes on until the page ends or `agency down` stops it.
- ```` ```text ```` is what the block before it prints; `…` stands for anything.
- ```` ```json ```` must be JSON.
- `<!-- file: support.py of index.md -->` takes a file of another page.
- `<!-- not run: why -->` is said of the one block after it. Python must be Python all the same.

The port is the one thing that is changed: a page's http://127.0.0.1:8000 is wherever its system is served.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.gateways import Server
from tests.support.paths import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
ADDRESS = "127.0.0.1:8000"
ANYTHING = "…"
SECONDS = 100

_FENCE = re.compile(
    r"(?P<notes>(?:<!-- [^\n]* -->\n)*)```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)```\n",
    re.DOTALL,
)
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_FILE = re.compile(r"<!-- file: (\S+) of (\S+) -->")

Serve = Callable[[str, Path], Server]
"""Serves the system of this name, whose module is in this folder."""


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a page."""

    where: str
    language: str
    title: str | None
    code: str
    not_run: str | None

    @property
    def is_file(self) -> bool:
        return self.language == "python" and self.title is not None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [_block(page, text, found) for found in _FENCE.finditer(text)]


def _block(page: Path, text: str, found: re.Match[str]) -> Block:
    line = text.count("\n", 0, found.start("code"))
    reason = _NOT_RUN.search(found["notes"])
    where = f"{page.name}:{line}"
    return Block(where, found["language"], found["title"], found["code"], reason and reason[1])


def is_served(page: Path) -> bool:
    return any(
        block.language == "sh" and not block.not_run and "agency serve" in block.code for block in blocks_of(page)
    )


class Reader:
    """A reader who follows one page, in a folder."""

    def __init__(self, page: Path, folder: Path, serve: Serve, variables: Mapping[str, str] | None = None) -> None:
        self._page = page
        self._folder = folder
        self._serve = serve
        self._server: Server | None = None
        self._variables = dict(variables or {})
        self._python: subprocess.Popen[str] | None = None
        self._printed: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._python is not None:
            self._python.kill()
            self._python.communicate()

    def read(self) -> None:
        """Follow the page to its end."""
        for name, page in _FILE.findall(self._page.read_text()):
            (found,) = [each for each in blocks_of(ROOT / "docs" / page) if each.title == name]
            (self._folder / name).write_text(found.code)
        for block in blocks_of(self._page):
            self._follow(block)

    def _follow(self, block: Block) -> None:
        printed, self._printed = self._printed, None
        match block.language:
            case "python" if block.not_run is not None:
                compile(f"async def fragment():\n{_indented(block.code)}\n    pass", block.where, "exec")
            case "python" if block.is_file:
                assert block.title is not None
                (self._folder / block.title).write_text(block.code)
            case "python":
                self._printed = self._run(block)
            case "sh" if block.not_run is None:
                self._printed = "".join([self._command(each, block.where) for each in commands_of(block.code)])
            case "text" if block.not_run is None:
                assert printed is not None, f"{block.where}: nothing before it prints this"
                _check(block, printed)
            case "json":
                json.loads(block.code)
            case language:
                assert language and block.not_run, f"{block.where}: say what it is, or why it is not run"

    def _run(self, block: Block) -> str:
        if self._python is None:
            self._python = self._start()
        assert self._python.stdin is not None and self._python.stdout is not None
        asked = {"code": self._moved(block.code), "where": block.where, "environment": self._of_server()}
        self._python.stdin.write(json.dumps(asked) + "\n")
        self._python.stdin.flush()
        answer = json.loads(self._python.stdout.readline())
        assert not answer["error"], f"{block.where}: {answer['error']}\nprinted: {answer['printed']}"
        return str(answer["printed"])

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.notebook"],
            cwd=self._folder,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _command(self, command: str, where: str) -> str:
        if command.startswith("agency serve "):
            self._server = self._serve(command.split()[2], self._folder)
            return ""
        done = subprocess.run(
            ["bash", "-c", self._moved(command)],
            cwd=self._folder,
            env={**self._environment(), **self._of_server()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{where}: {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "COLUMNS": "200", **self._variables}

    def _of_server(self) -> dict[str, str]:
        if self._server is None:
            return {}
        return {**self._server.environment, "AGENCY_DATA_DIR": str(self._server.settings.data_dir)}

    def _moved(self, code: str) -> str:
        return code if self._server is None else code.replace(ADDRESS, self._server.url.removeprefix("http://"))


def commands_of(code: str) -> Iterator[str]:
    """The commands of a block; one that ends in a backslash goes on in the next line, and a comment ends a line."""
    for line in code.replace("\\\n", " ").splitlines():
        command = re.sub(r"(^|\s+)# .*$", "", line).strip()
        if command:
            yield command


def _check(block: Block, printed: str) -> None:
    pattern = ".*?".join(re.escape(part) for part in block.code.strip().split(ANYTHING))
    assert re.fullmatch(pattern, printed.strip(), re.DOTALL), (
        f"{block.where}: the page shows\n{block.code}\nand it prints\n{printed}"
    )


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.splitlines())
