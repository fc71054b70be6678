"""What all handles of one joined installation share: the way to its actors, and the feeds that this process follows."""

from __future__ import annotations

from collections.abc import Sequence

from actors.address import Address, Files
from actors.caller import Caller, Handle
from actors.feeds.agency_watcher import AgencySubscription, AgencyWatcher, EventReader
from actors.feeds.host_feed import NumberedEvent
from actors.feeds.watcher import Watcher
from actors.settings import Settings
from agency.errors import InvalidInput
from agency.messages import Message
from agency.thread.invocation import checked_messages

CURSOR_MOST = 2**53


class Connection:
    def __init__(self, settings: Settings, directory: Handle) -> None:
        self.settings = settings
        self.caller = Caller(directory, settings.namespace)
        self.files = Files(settings.data_dir)
        self.watcher = Watcher(self.caller)
        self._events = EventReader(self.caller, self.files)
        self._agency_watcher = AgencyWatcher(self._events)

    def subscribe_agency(self, agency_id: str, after: int | None) -> AgencySubscription:
        """The stored events of all of an agency's threads after a cursor, then those to come; None is from now on."""
        if after is not None:
            check_within("the cursor after which events begin", after, 0, CURSOR_MOST, whole=True)
        return self._agency_watcher.subscribe(Address(agency_id).agency, after)

    async def agency_events(self, agency_id: str, after: int, limit: int) -> list[NumberedEvent]:
        """A page of the stored events of all of an agency's threads, as JSON with their cursors."""
        check_within("the cursor after which events begin", after, 0, CURSOR_MOST, whole=True)
        check_within("a page of events", limit, 1, 1_000, whole=True)
        return await self._events.events(agency_id, after, limit)

    async def close(self) -> None:
        await self.watcher.close()
        await self._agency_watcher.close()

    def checked(self, message: str | Message | Sequence[Message]) -> tuple[Message, ...]:
        """The messages that a new thread begins with, checked here and nowhere later; none is allowed."""
        return checked_messages(message, longest=self.settings.message_chars)


def check_within(what: str, given: object, least: float, most: float, *, whole: bool = False) -> None:
    number = isinstance(given, int if whole else int | float)
    if not (number and least <= given <= most):  # type: ignore[operator]  # it is a number, and not NaN
        raise InvalidInput(f"{what} is a number from {least:g} to {most:g}, not {given!r:.100}")
