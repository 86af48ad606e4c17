"""What this process shows of its requests to the other processes of a team (`team.py`)."""

from collections.abc import Callable

from toolbridge.server.app import App
from toolbridge.server.request_details import describe
from toolbridge.server.request_rows import RowView, running_rows
from toolbridge.server.team_records import TeamAnswer, TeamQuestion
from toolbridge.store.ledger import LedgerRow

_ENDED = 100
"""Ended requests that are shown, beside those since the last look."""
_MOST_ENDED = 400


class OwnRequests:
    """The requests of a process, with the settings of the `App` in use."""

    def __init__(self, app: Callable[[], App]) -> None:
        self._find_app = app
        self._app = app()
        self._view = RowView(self._app.gateway.redactor, None)

    async def describe(self, question: TeamQuestion, name: str) -> TeamAnswer:
        return await describe(self._find_app(), question, name)

    def running(self) -> list[LedgerRow]:
        return [self._safe(row) for row in running_rows(self._app, self._view)]

    def ended(self, since: int) -> tuple[list[LedgerRow], int]:
        recent = self._app.recent_requests
        count = min(_MOST_ENDED, max(_ENDED, recent.number - since))
        return [self._safe(row) for row in recent.after(recent.number - count)], recent.number

    def _safe(self, row: LedgerRow) -> LedgerRow:
        """Return a row with its texts redacted and shortened."""
        if (app := self._find_app()) is not self._app:
            self._app, self._view = app, RowView(app.gateway.redactor, None)
        return self._view.safe(row)
