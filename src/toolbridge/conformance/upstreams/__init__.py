"""One file per API: how its servers frame an answer, and what they refuse in a request."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from toolbridge.conformance.cases import APIS, WireFraming
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject


@dataclass(frozen=True)
class UpstreamApi:
    path: re.Pattern[str]
    """Where a conversation is asked for."""
    base: str
    """What a gateway's base URL for this API ends with."""
    content_type: str
    frame: Callable[[str, WireFraming], bytes]
    """Return one line of a case as the API sends it."""
    tools: Callable[[JsonObject], list[str]]
    """Return the names of the tools on offer in a request."""
    refuses: Callable[[JsonObject], list[str]]
    """Return why a strict server of this API would refuse a request."""
    normal: Callable[[JsonObject], JsonObject] = lambda body: body
    """Return a request in the API's usual spelling, where it takes several."""


def load(name: str) -> UpstreamApi:
    """Return the server side of an API."""
    if name not in APIS:
        raise ConfigError(
            f"no API is called {name!r}; there are {', '.join(APIS)}", where="upstream"
        )
    api: UpstreamApi = import_module(f"{__name__}.{name}").UPSTREAM
    return api
