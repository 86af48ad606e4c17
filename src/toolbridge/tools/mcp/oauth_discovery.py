"""Finds the authorization server of an MCP server.

The server answers 401 with the address of its metadata (RFC 9728), which name the authorization
server, whose own metadata (RFC 8414, or OpenID Connect) have the endpoints. A server without such
metadata is its own authorization server, as in MCP 2025-03-26.
"""

import re
from urllib.parse import urlsplit

import aiohttp
import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.tools.mcp.oauth import OauthFailure, ask
from toolbridge.upstream.addresses import is_private_host

_PARAMETER = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


class AuthorizationServer(msgspec.Struct, frozen=True):
    """The endpoints that a login needs."""

    issuer: str
    authorize: str
    token: str
    register: str = ""
    scopes: tuple[str, ...] = ()
    resource: str = ""
    """The identifier of the MCP server, for which the token is requested (RFC 8707)."""
    checks_issuer: bool = False
    """Whether the answer of the authorization endpoint has `iss` (RFC 9207)."""


async def discover(url: str, challenge: str, session: aiohttp.ClientSession) -> AuthorizationServer:
    """Return the authorization server of the MCP server at `url`; raise `OauthFailure`.

    `challenge` is the `WWW-Authenticate` of the server's 401.
    """
    given = {match[1].lower(): match[2] or match[3] for match in _PARAMETER.finditer(challenge)}
    resource = await _resource_metadata(url, given.get("resource_metadata", ""), session)
    issuers = _texts(resource.get("authorization_servers"))
    issuer = issuers[0] if issuers else _origin(url)
    _check_address(issuer, url)
    found = await _server_metadata(issuer, session)
    if not found and not issuers:
        # MCP 2025-03-26, authorization: the default endpoints of a server without metadata.
        found = {name: f"{issuer}/{path}" for name, path in _DEFAULTS.items()}
    if not found:
        raise OauthFailure(f"the authorization server {issuer} has no metadata")
    scopes = given.get("scope", "").split() or _texts(resource.get("scopes_supported"))
    named = resource.get("resource")
    return _checked(found, issuer, url, tuple(scopes), named if isinstance(named, str) else "")


_DEFAULTS = {
    "authorization_endpoint": "authorize",
    "token_endpoint": "token",
    "registration_endpoint": "register",
}


async def _resource_metadata(url: str, named: str, session: aiohttp.ClientSession) -> JsonObject:
    """Return the metadata of the MCP server; empty if it has none."""
    path = urlsplit(url).path.rstrip("/")
    known = f"{_origin(url)}/.well-known/oauth-protected-resource"
    places = [named] if named else list(dict.fromkeys((f"{known}{path}", known)))
    for place in places:
        if _origin(place) != _origin(url):
            _check_address(place, url)
        status, found = await ask(session, "GET", place)
        if status == 200 and found:
            _check_resource(found, url)
            return found
    return {}


def _check_resource(found: JsonObject, url: str) -> None:
    """Raise unless the metadata are about this server (RFC 9728, 3.3)."""
    resource = found.get("resource")
    if isinstance(resource, str) and _origin(resource) != _origin(url):
        raise OauthFailure(f"the metadata of {url} are about another server, {resource[:200]}")


async def _server_metadata(issuer: str, session: aiohttp.ClientSession) -> JsonObject:
    origin, path = _origin(issuer), urlsplit(issuer).path.rstrip("/")
    places = (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    )
    for place in dict.fromkeys(places):
        status, found = await ask(session, "GET", place)
        if status == 200 and found.get("token_endpoint"):
            # RFC 8414, 3.3: another issuer could be an attempt to mix up two servers.
            if str(found.get("issuer", issuer)).rstrip("/") != issuer.rstrip("/"):
                raise OauthFailure(f"the metadata of {issuer} name another issuer")
            return found
    return {}


def _checked(
    found: JsonObject, issuer: str, url: str, scopes: tuple[str, ...], resource: str
) -> AuthorizationServer:
    names = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
    authorize, token, register = (
        value if isinstance(value := found.get(name), str) else "" for name in names
    )
    for address in filter(None, (authorize, token, register)):
        _check_address(address, url)
    if not authorize or not token:
        raise OauthFailure(f"{issuer} has no endpoints for authorization and tokens")
    methods = found.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise OauthFailure(f"{issuer} does not support PKCE with S256, which MCP requires")
    return AuthorizationServer(
        issuer, authorize, token, register, scopes, resource or url.partition("#")[0],
        found.get("authorization_response_iss_parameter_supported") is True,
    )  # fmt: skip


def _check_address(address: str, server: str) -> None:
    """Raise for an address that is not https, or in a private network that the server is not in."""
    try:
        parts = urlsplit(address)
        host, inside = parts.hostname or "", is_private_host(urlsplit(server).hostname or "")
    except ValueError:
        raise OauthFailure(f"{address[:200]} is not an address") from None
    if parts.scheme == "https" and host and (inside or not is_private_host(host)):
        return
    if not (parts.scheme == "http" and inside and is_private_host(host)):
        raise OauthFailure(f"{address[:200]} is refused: it must be https and public")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
