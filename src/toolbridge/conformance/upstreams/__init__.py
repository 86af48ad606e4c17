"""One file per upstream API: how its servers frame an answer, and which requests they reject."""

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
    """The path of chat requests."""
    base: str
    """The suffix of a gateway's base URL for this API."""
    content_type: str
    frame: Callable[[str, WireFraming], bytes]
    """Return one line of a case, framed as the API frames it."""
    tools: Callable[[JsonObject], list[str]]
    """Return the names of the tools in a request."""
    refuses: Callable[[JsonObject], list[str]]
    """Return why a strict server of this API would reject a request."""
    normal: Callable[[JsonObject], JsonObject] = lambda body: body
    """Return a request in the API's usual spelling, if it accepts several."""


def load(name: str) -> UpstreamApi:
    """Return the server side of an API."""
    if name not in APIS:
        raise ConfigError(
            f"no API is called {name!r}; there are {', '.join(APIS)}", where="upstream"
        )
    api: UpstreamApi = import_module(f"{__name__}.{name}").UPSTREAM
    return api
