"""One call of a model that the gateway makes itself: its charge, and its row in the ledger.

Structured streams and descriptions of images use it; requests of clients are recorded by `dispatch`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from toolbridge.core.errors import Aborted, ToolbridgeError, status_of
from toolbridge.routing.charge import Charge, RequestSize
from toolbridge.routing.pricing import has_price
from toolbridge.routing.route import Route
from toolbridge.server.request_log import Entry

RecordEntry: TypeAlias = Callable[[Entry, int], None]


@asynccontextmanager
async def metered_call(
    charge: Charge, entry: Entry, call: tuple[Route, RequestSize], record: RecordEntry
) -> AsyncIterator[Charge]:
    """Reserve for one call, settle it at the end of the context, and record it."""
    route, asked = call
    entry.free = not has_price(route)
    entry.fields |= {
        "gen_ai.provider.name": route.provider,
        "gen_ai.request.model": route.address,
        "gen_ai.response.model": route.target.model,
    }
    status = 200
    try:
        async with charge:
            await charge.fit(route, asked)
            yield charge
    except ToolbridgeError as error:
        entry.note(error__type=error.kind)
        status = status_of(error.problem)
        raise
    except asyncio.CancelledError:  # by the client, or because it took too long
        entry.note(error__type=Aborted.kind)
        raise
    finally:
        record(entry, status)
