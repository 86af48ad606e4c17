"""Asks a gateway in any client API, and reads the answer as strictly as that API's clients do."""

import json
from dataclasses import dataclass, field

from toolbridge.conformance import clients
from toolbridge.conformance.client_requests import CasePart, CaseRequest, CaseTool, CaseTurn
from toolbridge.conformance.http_client import HttpClient
from toolbridge.conformance.observed import Observed

WEATHER = CaseTool(
    "get_weather",
    "Returns the weather in a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)


@dataclass(frozen=True)
class Answered:
    """An answer of the gateway."""

    status: int
    headers: dict[str, str]
    seen: Observed = field(default_factory=Observed)
    error: str = ""

    @property
    def calls(self) -> list[tuple[str, dict | None]]:
        return [(call.name, call.arguments) for call in self.seen.calls]


def request(text: str = "What is the weather?", *, tools=(WEATHER,), **fields) -> CaseRequest:
    """Return a request with one text of the user."""
    turns = fields.pop("turns", (CaseTurn("user", (CasePart(text=text),)),))
    return CaseRequest(turns, tools=tools, **fields)


async def ask(
    url: str, api: str, wanted: CaseRequest, *, stream: bool, model: str = "m", **fields: object
) -> Answered:
    """Send `wanted` in `api` and read the answer; every broken rule of the API fails the test.

    `fields` are added to the body.
    """
    client = clients.load(api)
    encoded = client.ask(wanted, model, stream)
    body = json.dumps({**encoded.body, **fields}).encode()
    reply = await HttpClient(url).ask(encoded.path, dict(encoded.headers), body, limit=60)
    if reply.status != 200:
        error = client.read_error(json.loads(reply.body))
        return Answered(reply.status, reply.headers, error=error)
    seen = client.read_stream(reply.body) if stream else client.read_whole(json.loads(reply.body))
    assert seen.faults == []
    return Answered(reply.status, reply.headers, seen, error=seen.error)
