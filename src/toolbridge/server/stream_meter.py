"""The limits of a caller's key for structured streams, and a row of the ledger for each model call."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from toolbridge.core.errors import NotAllowed
from toolbridge.policy.key_scopes import allows_model, allows_tool, check_model, tool_text
from toolbridge.routing.charge import Charge, RequestSize
from toolbridge.routing.route import Route
from toolbridge.server.http import IncomingRequest
from toolbridge.server.inner_call_meter import InnerCallMeter
from toolbridge.server.metered_call import metered_call
from toolbridge.server.request_fields import note_caller
from toolbridge.server.request_log import Entry

if TYPE_CHECKING:
    from toolbridge.server.app import App


class StreamMeter:
    """The `Meter` of one request to `/v1/stream`, for all calls of its run."""

    def __init__(self, app: "App", request: IncomingRequest) -> None:
        self._app = app
        self._request = request
        self._key = request.access
        self.run = ""
        """The run, which is the session of its calls unless the client names another."""

    @property
    def key_name(self) -> str:
        return "" if self._key is None else self._key.name

    @property
    def descriptions(self) -> InnerCallMeter:
        gateway = self._app.gateway
        return InnerCallMeter(
            self._request,
            "describe_images",
            charges=gateway.charges,
            permit=gateway.permit_model,
            record=self._app.record_inner_call,
        )

    async def permit(self, address: str, tools: Iterable[str]) -> None:
        key = self._key
        if key is None:
            return
        check_model(key.name, key.scopes, address, self._app.config.map)
        for name in tools:
            if not allows_tool(key.scopes, name):
                raise NotAllowed(tool_text(key.name, key.scopes, name), where="tools")
        await self._app.gateway.charges.check(key)

    def allowed(self, addresses: Sequence[str]) -> Sequence[str]:
        key = self._key
        if key is None:
            return addresses
        names = self._app.config.map
        return [one for one in addresses if allows_model(key.scopes, one, names)] or addresses[:1]

    def call(self, route: Route, asked: RequestSize) -> AbstractAsyncContextManager[Charge]:
        entry = Entry(self._app.request_id())
        note_caller(entry, self._request)
        entry.fields.setdefault("session.id", self.run)
        entry.fields["surface"] = "stream"
        self._app.run_requests.add_call(self.run, entry)
        charge = self._app.gateway.charges.begin(self._key, entry)
        return metered_call(charge, entry, (route, asked), self._app.record_inner_call)
