"""Where `agency run` and `agency chat` work, by their options: in this process with a system, or at a server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agency.errors import InvalidInput, Unavailable
from dashboard.command.installation import chosen, introduce
from dashboard.command.terminal.backends import Backend, local_backend, server_backend
from dashboard.command.terminal.targets import data_folder


@dataclass(frozen=True, slots=True)
class Workplace:
    url: str | None
    agency: str | None
    named: str | None
    """The system of the option; without it, a thread that is continued keeps its own."""
    system: str | None
    """The system of a new thread in this process; None at a server."""
    data_dir: Path
    options: tuple[str, ...]
    """The options that find a thread again."""

    @classmethod
    def of(
        cls,
        url: str | None,
        agency: str | None,
        system: str | None,
        data_dir: Path | None,
        resume: str | None,
        *,
        demo: bool,
        model: str | None,
    ) -> Workplace:
        here = system is not None or data_dir is not None or demo
        where = url or (None if here else os.environ.get("AGENCY_URL"))
        if url is not None and (system is not None or demo):
            raise InvalidInput("a server has agents of its own: say --system or --url, and --demo only without it")
        found = None if where else chosen(system, demo=demo, model=None if resume else model)
        options = (f"--url={url}",) if url else (f"--data-dir={data_dir}",) if data_dir else ()
        named = found if demo else system
        return cls(where, agency, named, found, data_folder(data_dir), options)

    def introduce(self, model: str | None) -> None:
        """Say in a line which agent answers, if that was not named."""
        if self.system is not None:
            introduce(self.system, model)

    def backend(self, resume: str | None) -> AbstractAsyncContextManager[Backend]:
        """Open it, for a new thread or one that is continued."""
        if self.url is not None:
            return _at_server(self.url, self.agency, resume)
        assert self.system is not None
        return local_backend(self.data_dir, self.named, self.system, resume)


@asynccontextmanager
async def _at_server(url: str, agency: str | None, resume: str | None) -> AsyncIterator[Backend]:
    from agency.client import AsyncClient

    async with AsyncClient(url) as client:
        if not await client.ready():
            raise Unavailable(f"there is no server at {client.url} that is ready; `agency serve` starts one")
        yield await server_backend(client, agency, resume)
