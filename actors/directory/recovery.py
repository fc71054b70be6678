"""After a directory has started: find in the files whatever has something to do, and wake it.

The files are the truth. Hosts that survived have been adopted before this, so the threads that they hold are known to
be awake and are left alone. Threads whose files were in use when everything died come first. (What agencies had begun,
their agency hosts find.)
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from actors.address import Address, Files
from actors.agency.peek import peek_heads
from actors.directory.activations import Activations
from actors.updates import ThreadUpdate, update_from_file

CHUNK = 200
"""So many threads are looked at together, in a worker thread."""


class Recovery:
    def __init__(
        self,
        files: Files,
        activations: Activations,
        record: Callable[[list[ThreadUpdate]], None],
    ) -> None:
        self._files = files
        self._activations = activations
        self._record = record

    async def scan(self) -> None:
        """Wake everything that should be at work."""
        found = await asyncio.to_thread(self._files.all_threads)
        for start in range(0, len(found), CHUNK):
            await self._scan_threads(found[start : start + CHUNK])

    async def _scan_threads(self, addresses: list[Address]) -> None:
        # The heads are read before the threads' files: a file is never behind its agency's head, unless the file is
        # from an earlier time (a backup). In the other order, a thread that advances meanwhile would look like that.
        heads = await asyncio.to_thread(self._heads, addresses)
        glances = await asyncio.to_thread(self._activations.look_at, addresses)
        for address, seen in glances:
            self._activations.wake_when(address, seen.due)
        moved = [(address, seen) for address, seen in glances if seen.seq != heads[address]]
        self._record([update_from_file(address, seen, heads[address]) for address, seen in moved])

    def _heads(self, addresses: list[Address]) -> dict[Address, int]:
        """The latest event of each thread that its agency's index has."""
        threads: dict[str, list[str]] = defaultdict(list)
        for address in addresses:
            threads[address.agency].append(address.thread)
        known = {agency: peek_heads(self._files.of(Address(agency)), ids) for agency, ids in threads.items()}
        return {address: known[address.agency].get(address.thread, 0) for address in addresses}
