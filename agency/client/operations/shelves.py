"""Operations of an agency on its shelves: bytes with versions, which outlive threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from agency.client.operation import Resource, asks, lists
from agency.client.request import Listing, ListPage, Request, get, key, listing
from agency.errors import NotFound
from agency.shelves.interface import (
    ShelfEntry,
    ShelfInfo,
    ShelfItem,
    ShelfList,
    ShelfPage,
    Version,
    as_bytes,
    checked_content,
    checked_path,
    checked_shelf,
    checked_version,
)


class ShelfOperations(Resource):
    @asks
    def shelves(self) -> Request[tuple[ShelfInfo, ...]]:
        """The agency's shelves that have entries, by name."""
        return get(ShelfList, f"{self._path}/shelf").then(lambda found: found.shelves)

    @lists
    def shelf_entries(self, shelf: str, prefix: str = "") -> Listing[ShelfEntry]:
        """The entries of a shelf whose paths begin with a prefix, in the order of their paths."""
        return listing(
            ShelfPage,
            f"{self._path}/shelf/{checked_shelf(shelf)}",
            lambda found: ListPage(found.entries, found.next),
            begin="",
            prefix=prefix,
        )

    @asks
    def read_shelf(self, shelf: str, path: str) -> Request[ShelfItem]:
        """The content and the version of an entry."""
        return Request(
            method="GET", path=self._entry(shelf, path), read=lambda content: ShelfItem(content, ""), finish=_versioned
        )

    @asks
    def write_shelf(
        self, shelf: str, path: str, content: str | bytes, *, if_version: Version | None = None
    ) -> Request[ShelfEntry]:
        """Put an entry under a path, in the place of what is there. With `if_version`, only if that is its version, or
        with `ABSENT` if there is none; else `VersionConflict`."""
        return Request(
            method="PUT",
            path=self._entry(shelf, path),
            body=checked_content(as_bytes(content)),
            media="application/octet-stream",
            conditions={**_condition(if_version), "Idempotency-Key": key()},
            read=ShelfEntry.model_validate_json,
        )

    @asks
    def delete_shelf_entry(self, shelf: str, path: str, *, if_version: Version | None = None) -> Request[None]:
        """Delete an entry. With `if_version`, only if that is its version."""
        return Request(
            method="DELETE",
            path=self._entry(shelf, path),
            conditions=_condition(if_version),
            read=lambda content: None,
            done=NotFound,
        )

    def _entry(self, shelf: str, path: str) -> str:
        """The address of an entry. The path is checked here, too: `..` would lead to another address."""
        return f"{self._path}/shelf/{checked_shelf(shelf)}/{quote(checked_path(path))}"


def _condition(version: Version | None) -> dict[str, str]:
    match checked_version(version):
        case None:
            return {}
        case "absent":
            return {"If-None-Match": "*"}
        case wanted:
            return {"If-Match": f'"{wanted}"'}


def _versioned(item: ShelfItem, headers: Mapping[str, str]) -> ShelfItem:
    return replace(item, version=headers.get("etag", "").strip('"'))
