"""Who may use an agency: the keys that it has given out. It knows only digests of their secrets (see `keys`)."""

from __future__ import annotations

import hmac

from actors.agency.context import AgencyContext, checked_name
from actors.agency.limits import StorageLimits
from actors.agency.pages import check_limit
from actors.operations import operation, urgent
from agency.api.bodies import KeyPage
from agency.api.tenancy import KeyInfo, KeyRole
from agency.clock import now_ms
from agency.errors import NotFound
from agency.events import timestamp


class Access:
    def __init__(self, context: AgencyContext) -> None:
        self._agency = context.id
        self._store = context.store
        self._page_bytes = context.settings.page_bytes
        self._limits = StorageLimits(context.settings, context.store)

    @operation
    async def add_key(self, key_id: str, name: str, role: KeyRole, digest: str) -> KeyInfo:
        """Accept the key with this digest. The caller gives the key's id, so adding it again changes nothing."""
        made = KeyInfo(id=key_id, name=checked_name(name, "a key"), role=role, created_at=timestamp(now_ms()))
        if self._store.key(key_id) is None:
            self._limits.check_new_key()
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
    async def keys(self, after: str = "", limit: int = 100) -> KeyPage:
        """The keys that count, without their secrets, in the order of their ids."""
        check_limit(limit, "keys")
        found, more = self._store.keys(after, limit, self._page_bytes)
        return KeyPage(keys=tuple(found), next=found[-1].id if more else None)

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
