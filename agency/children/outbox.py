"""The outbox: what a thread sends to other threads waits here until they have it on disk."""

from __future__ import annotations

from agency.children.parcels import PARCEL, AnyParcel
from agency.store.draft import Draft
from agency.store.store import ThreadStore


def send(draft: Draft, parcel: AnyParcel) -> None:
    draft.execute("INSERT INTO outbox (parcel) VALUES (?)", (PARCEL.dump_json(parcel),))
    draft.sends = True


def acknowledge(draft: Draft, seq: int) -> None:
    draft.execute("DELETE FROM outbox WHERE seq = ?", (seq,))


def parcels(store: ThreadStore) -> list[tuple[int, AnyParcel]]:
    """What waits in the outbox, oldest first."""
    rows = store.query("SELECT seq, parcel FROM outbox ORDER BY seq")
    return [(int(str(seq)), PARCEL.validate_json(parcel)) for seq, parcel in rows if isinstance(parcel, bytes)]
