"""Checks and charges the requests to other models that a client's request causes.

A model that describes images (`describe_images`) or searches the web (`backend = "model"`) is one
more model that the caller uses: its key must allow it, its limits apply, and every such request has
a row of its own in the ledger. It does not count as a further request of the key.
"""

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import msgspec

from toolbridge.core.ids import Ids
from toolbridge.routing.charge import Charge, RequestSize
from toolbridge.routing.charges import Charges
from toolbridge.routing.route import Route
from toolbridge.server.http import IncomingRequest
from toolbridge.server.metered_call import RecordEntry, metered_call
from toolbridge.server.request_fields import note_caller
from toolbridge.server.request_log import Entry

PermitModel: TypeAlias = Callable[[IncomingRequest, str], None]
"""Raises `NotAllowed` if the key of a request may not use the model at an address."""


class InnerCallMeter:
    """The key of one request, for the other models that it uses."""

    def __init__(
        self,
        request: IncomingRequest,
        surface: str,
        *,
        charges: Charges,
        permit: PermitModel,
        record: RecordEntry,
    ) -> None:
        self._charges = charges
        self._permit = permit
        self._request = request
        self._surface = surface
        self._record = record

    def permit(self, address: str) -> None:
        """Raise `NotAllowed` if the caller's key may not use the model."""
        self._permit(self._request, address)

    def call(self, route: Route, asked: RequestSize) -> AbstractAsyncContextManager[Charge]:
        """Reserve for one request, and settle it at the end of the context."""
        entry = Entry(Ids(os.urandom(16)).request())
        note_caller(entry, self._request)
        entry.fields["surface"] = self._surface
        key = self._request.access
        # The client's request holds the place of the key's `concurrency`, and is the counted one.
        single = None if key is None else msgspec.structs.replace(key, concurrency=0)
        charge = self._charges.begin(single, entry)
        charge.counted = True
        return metered_call(charge, entry, (route, asked), self._record)
