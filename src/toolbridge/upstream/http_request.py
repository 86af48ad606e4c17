"""Requests to providers, before and after their URL and credentials are known."""

import msgspec


class HttpRequest(msgspec.Struct, frozen=True):
    """A request of an API, before authorization."""

    path: str
    body: bytes
    headers: dict[str, str] = {}


class SignedRequest(msgspec.Struct, frozen=True):
    """A request as it goes over the wire."""

    url: str
    body: bytes
    headers: dict[str, str]
