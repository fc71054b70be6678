"""Operations of a thread on its agent's files."""

from __future__ import annotations

from agency.api import bodies as api
from agency.client.operation import Resource, asks
from agency.client.request import Request, delete, get, get_bytes, put_bytes
from agency.errors import NotFound
from agency.thread.views import FileInfo


class FileOperations(Resource):
    @asks
    def files(self) -> Request[tuple[FileInfo, ...]]:
        """The agent's files, by path."""
        return get(api.FileList, f"{self._path}/files").then(lambda found: found.files)

    @asks
    def read_file(self, path: str) -> Request[bytes]:
        """The content of a file."""
        return get_bytes(f"{self._path}/file", {"path": path})

    @asks
    def put_file(self, path: str, content: str | bytes) -> Request[None]:
        """Give the agent a file, which replaces the one at this path."""
        given = content.encode() if isinstance(content, str) else content
        return put_bytes(f"{self._path}/file", {"path": path}, given)

    @asks
    def delete_file(self, path: str) -> Request[None]:
        """Delete one of the agent's files."""
        return delete(f"{self._path}/file", {"path": path}, done=NotFound)
