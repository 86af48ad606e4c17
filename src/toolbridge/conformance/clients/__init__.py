"""One file per client API: encodes requests, and reads answers as strictly as any client does."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from toolbridge.conformance.cases import APIS
from toolbridge.conformance.client_requests import CaseRequest, EncodedRequest
from toolbridge.conformance.observed import Observed
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject


@dataclass(frozen=True)
class CaseClient:
    ask: Callable[[CaseRequest, str, bool], EncodedRequest]
    """Takes the request, the model's name and whether to stream."""
    read_stream: Callable[[bytes], Observed]
    read_whole: Callable[[JsonObject], Observed]
    read_error: Callable[[JsonObject], str]
    """Return the text of an error body, with its type; "" when it is not in the API's envelope."""
    stops: dict[str, frozenset[str]]
    """Our stop reason → the API's stop reasons."""
    authorize: Callable[[str], dict[str, str]]
    shows: frozenset[str] = frozenset()
    """The kinds of server tools whose calls an answer of the API contains."""


def load(name: str) -> CaseClient:
    """Return the client side of an API."""
    if name not in APIS:
        raise ConfigError(f"there is no API {name!r}; known APIs: {', '.join(APIS)}", where="api")
    client: CaseClient = import_module(f"{__name__}.{name}").CLIENT
    return client
