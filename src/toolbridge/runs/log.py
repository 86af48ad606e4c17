"""The numbered events of one run: a shared log whose items are events."""

from typing import TypeAlias

from toolbridge.runs.kept_events import KEPT, MOST, Record, RunEventForm, record_of
from toolbridge.store.interface import Store
from toolbridge.store.shared_log import AHEAD, LogPlace, LogReader, SharedLog
from toolbridge.structured.events import Event, RunDone

Subscriber: TypeAlias = LogReader[Record]
"""A subscriber of a run."""
_DELAY = 1.0
"""Seconds after which an event is stored at the latest."""


class EventLog(SharedLog[Record]):
    """The events of a run: the run writes them, subscribers read them."""

    def __init__(self, place: LogPlace, *, ahead: int = AHEAD) -> None:
        super().__init__(place, RunEventForm(place.store.redactor, place.most), ahead=ahead)

    async def put(self, event: Event) -> Record:
        """Append an event; wait while `ahead` events are unread, and for the store."""
        await self.room()
        record = self.add(event)
        await self.settle()
        return record

    def add(self, event: Event) -> Record:
        """Number an event and wake the readers."""
        record = record_of(self.last + 1, event)
        self.append(record, last=isinstance(event, RunDone))
        return record


def run_place(store: Store, owner: str, run: str, most: int = MOST) -> LogPlace:
    """Return where the events of a run are stored."""
    return LogPlace(store, f"stream/{owner}", run, KEPT, most, _DELAY)
