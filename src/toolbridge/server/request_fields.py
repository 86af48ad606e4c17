"""The fields of a log entry that come from a request: client, session, key, model and route."""

import re
from functools import lru_cache

from toolbridge.core.messages import Request
from toolbridge.policy.thinking import attaches
from toolbridge.routing.pricing import has_price
from toolbridge.routing.route import Route
from toolbridge.server.http import IncomingRequest
from toolbridge.server.request_log import Entry

_SESSIONS = ("x-claude-code-session-id", "session-id", "x-session-id", "x-session-affinity")


_LONGEST_AGENT = 1000
_SESSION_NAMES = frozenset(name.encode() for name in _SESSIONS)


def _session_of(exchange: IncomingRequest) -> str:
    """Return the client's name of the conversation; providers use it to find their prompt cache."""
    for name in _SESSIONS:
        if found := exchange.header(name):
            return found
    return ""


def is_agent(exchange: IncomingRequest) -> bool:
    """Return whether the client is a coding agent that requests thinking by default."""
    headers = exchange.head.headers
    agent = headers.get(b"user-agent", b"")[:_LONGEST_AGENT]
    return _is_agent(agent, headers.get(b"x-app", b"")[:_LONGEST_AGENT])


@lru_cache(maxsize=256)
def _is_agent(agent: bytes, app: bytes) -> bool:
    return attaches(agent.decode("latin-1"), app.decode("latin-1"))


@lru_cache(maxsize=256)
def _product_of(agent: bytes) -> str:
    """Return the name of the client's program: the first product of its user agent."""
    product = agent.decode("latin-1").partition(" ")[0].partition("/")[0]
    return re.sub(r"[^A-Za-z0-9._-]", "", product)[:40]


def note_caller(entry: Entry, exchange: IncomingRequest) -> None:
    """Note who asks a model; the request gets a row in the ledger."""
    entry.asks_model = True
    note_client(entry, exchange)


def note_client(entry: Entry, exchange: IncomingRequest) -> str:
    """Note the program, the key and the session of the client; return the session."""
    headers, fields = exchange.head.headers, entry.fields
    if b"traceparent" in headers:
        entry.trace_parent = exchange.header("traceparent")
    if client := _product_of(headers.get(b"user-agent", b"")[:_LONGEST_AGENT]):
        fields["client.name"] = client
    if exchange.access is not None:
        fields["toolbridge.key"] = exchange.access.name
    session = "" if _SESSION_NAMES.isdisjoint(headers) else _session_of(exchange)
    if session:
        fields["session.id"] = session
    return session


def note_model(entry: Entry, api: str, request: Request, route: Route) -> None:
    """Note which model was asked for, and where the request goes."""
    entry.free = not has_price(route)
    fields = entry.fields
    fields["surface"] = api
    fields["gen_ai.provider.name"] = route.provider
    fields["gen_ai.request.model"] = request.model
    fields["gen_ai.response.model"] = route.target.model
    fields["stream"] = request.stream
    if request.session:
        fields["session.id"] = request.session
