"""How an endpoint of a client's API decodes its requests."""

from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from toolbridge.core.codec import Codec
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Request
from toolbridge.core.steps import Steps, steps_of


class DecodeBody(Protocol):
    def __call__(self, body: bytes, *, model: str = "", stream: bool | None = None) -> Request: ...


@dataclass(frozen=True)
class ApiEndpoint:
    """How an endpoint decodes a request: its codec, and the values from the path."""

    codec: Codec
    model: str = ""
    stream: bool | None = None
    decode: DecodeBody | None = None
    """Decodes the body in place of the codec's own function, for endpoints with another shape."""
    extra: JsonObject = field(default_factory=dict)

    def read(self, body: bytes) -> Request:
        """Return the request in `body`."""
        decode = self.decode or self.codec.decode_request
        request = decode(body, model=self.model, stream=self.stream)
        return self._with_extra(request) if self.extra else request

    def reading(self, body: bytes) -> Steps[Request]:
        """Read the request in steps."""
        decode = self.decode or self.codec.decode_request
        request = yield from steps_of(decode, body, model=self.model, stream=self.stream)
        return self._with_extra(request) if self.extra else request

    def _with_extra(self, request: Request) -> Request:
        return msgspec.structs.replace(request, extra=request.extra | self.extra)
