"""What an agency has defined itself, as its file has it: blueprints and providers in pages of JSON, and how much of
them there is. Nothing here makes a model of what it reads: that takes longer than reading it.
"""

from __future__ import annotations

from actors.agency.pages import Page
from actors.agency.store import AgencyStore
from agency.api.tenancy import Layer


class Definitions:
    def __init__(self, store: AgencyStore) -> None:
        self._store = store

    def provider_page(self, after: str, limit: int, most: int) -> Page:
        """Names, entries, who has set them, and times, by name."""
        sql = "SELECT name, body, set_by, created_at, updated_at FROM providers WHERE name > ? ORDER BY name LIMIT ?"
        return self._store.page(sql, (after,), limit, most)

    def provider_names(self) -> set[str]:
        return {name for (name,) in self._store.rows("SELECT name FROM providers")}

    def stored_provider(self, name: str) -> tuple[str, Layer, str, str]:
        """The entry of a provider that is there, as JSON, who has set it, and when it was made and changed."""
        sql = "SELECT body, set_by, created_at, updated_at FROM providers WHERE name = ?"
        ((body, set_by, made, changed),) = self._store.rows(sql, (name,))
        return body, set_by, made, changed

    def blueprint_page(self, after: str, limit: int, most: int) -> Page:
        """Names, blueprints as JSON, and times, by name."""
        sql = "SELECT name, body, created_at, updated_at FROM blueprints WHERE name > ? ORDER BY name LIMIT ?"
        return self._store.page(sql, (after,), limit, most)

    def blueprint_names(self) -> set[str]:
        return {name for (name,) in self._store.rows("SELECT name FROM blueprints")}

    def blueprint_sizes(self, name: str) -> tuple[int | None, int, int]:
        """The bytes of a blueprint, None if there is none of this name; how many others there are, and their bytes."""
        size = "length(CAST(body AS BLOB))"
        own = self._store.rows(f"SELECT {size} FROM blueprints WHERE name = ?", (name,))
        ((others, taken),) = self._store.rows(
            f"SELECT count(*), coalesce(sum({size}), 0) FROM blueprints WHERE name <> ?", (name,)
        )
        return own[0][0] if own else None, others, taken

    def stored_blueprint(self, name: str) -> tuple[str, str, str]:
        """A blueprint that is there, as JSON, and when it was made and changed."""
        sql = "SELECT body, created_at, updated_at FROM blueprints WHERE name = ?"
        ((body, made, changed),) = self._store.rows(sql, (name,))
        return body, made, changed
