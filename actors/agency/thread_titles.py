"""What an agency's threads are called: by a person, and, of threads that an earlier release told of, by their files.

A thread tells its own title with every update (`journal`). What a person calls it stands beside that and is never
written over by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.agency.store import AgencyStore
from agency.errors import InvalidInput
from agency.names import check_name
from agency.secrets import without_secrets
from agency.wire import sayable_text

TITLE_MOST = 200


def rename(store: AgencyStore, thread_id: str, title: str | None) -> None:
    """Write down what a person calls a thread; None and a blank one are nothing."""
    if title is not None and len(title) > TITLE_MOST:
        raise InvalidInput(f"a title has at most {TITLE_MOST} characters")
    wanted = "" if title is None else " ".join(without_secrets(sayable_text(title)).split())
    check_name(wanted, "a title")
    store.write(("UPDATE threads SET renamed = ? WHERE id = ?", (wanted or None, thread_id)))


def untitled(store: AgencyStore, threads: Sequence[str]) -> list[str]:
    """Those of these threads whose titles have not been looked up: an earlier release told of them."""
    wanted = ",".join("?" * len(threads))
    sql = f"SELECT id FROM threads WHERE id IN ({wanted}) AND title IS NULL AND head > 0"
    return [thread_id for (thread_id,) in store.rows(sql, threads)]


def set_titles(store: AgencyStore, titles: Mapping[str, str]) -> None:
    sql = "UPDATE threads SET title = ? WHERE id = ? AND title IS NULL"
    store.write(*((sql, (title, thread_id)) for thread_id, title in titles.items()))
