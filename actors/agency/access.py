"""Who may use an agency: the keys that it has given out. It knows only digests of their secrets (see `keys`)."""

from __future__ import annotations

import hmac

from actors.agency.context import AgencyContext, checked_name
from actors.operations import operation, urgent
from agency.api.tenancy import KeyInfo, KeyRole
from agency.clock import now_ms
from agency.errors import NotFound
from agency.events import timestamp


class Access:
    def __init__(self, context: AgencyContext) -> None:
        self._agency = context.id
        self._store = context.store

    @operation
    async def add_key(self, key_id: str, name: str, role: KeyRole, digest: str) -> KeyInfo:
        """Accept the key with this digest. The caller gives the key's id, so adding it again changes nothing."""
        made = KeyInfo(id=key_id, name=checked_name(name, "a key"), role=role, created_at=timestamp(now_ms()))
        self._store.add_key(made, digest)
        known = self._store.key(key_id)
        assert known is not None
        return known[0]

    @urgent
    @operation
    async def key(self, key_id: str) -> KeyInfo:
        """A key by its id; `NotFound` if it was revoked or never given out."""
        known = self._store.key(key_id)
        if known is None:
            raise NotFound(f"agency {self._agency!r} has no key {key_id!r:.100}")
        return known[0]

    @operation
    async def keys(self) -> list[KeyInfo]:
        """The keys that count, without their secrets, the oldest first."""
        return self._store.keys()

    @operation
    async def revoke_key(self, key_id: str) -> None:
        """From now on the key opens nothing."""
        known = await self.key(key_id)
        self._store.drop_key(known.id)

    @urgent
    @operation
    async def check_key(self, key_id: str, digest: str) -> KeyInfo | None:
        """The key with this id, if its secret has this digest."""
        known = self._store.key(key_id)
        return known[0] if known is not None and hmac.compare_digest(known[1], digest) else None
