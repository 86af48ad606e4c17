"""Access tokens of MCP servers, by OAuth 2.1."""

import time

import aiohttp
import msgspec

from toolbridge.core.json import JsonObject, maybe_object
from toolbridge.tools.mcp.login import Login
from toolbridge.tools.web.bodies import BrokenCompression, UnknownCompression, read_body

MOST = 256 * 1024
"""The most bytes of an answer of an authorization server."""
SECONDS = 15.0


class OauthFailure(Exception):
    """The authorization server refused, or cannot be used."""


async def renewed_login(login: Login, session: aiohttp.ClientSession) -> Login:
    """Return the login with a new access token; raise `OauthFailure`."""
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    found = await token_request(login, form, session)
    return with_tokens(login, found)


async def token_request(
    login: Login, form: dict[str, str], session: aiohttp.ClientSession
) -> JsonObject:
    """Return the answer of the token endpoint to a grant; raise `OauthFailure`."""
    given = {**form, "client_id": login.client_id}
    if login.client_secret:
        given["client_secret"] = login.client_secret
    if login.resource:
        # RFC 8707: the token is for this server alone.
        given["resource"] = login.resource
    status, found = await ask(session, "POST", login.token_endpoint, form=given)
    if status != 200 or not isinstance(found.get("access_token"), str):
        reason = found.get("error_description") or found.get("error") or f"status {status}"
        raise OauthFailure(f"the token endpoint refused: {str(reason)[:200]}")
    return found


def with_tokens(login: Login, found: JsonObject) -> Login:
    """Return `login` with the tokens of an answer of the token endpoint."""
    refresh, life = found.get("refresh_token"), found.get("expires_in")
    return msgspec.structs.replace(
        login,
        access_token=str(found["access_token"]),
        # RFC 6749, 6: without a new refresh token the old one stays valid.
        refresh_token=refresh if isinstance(refresh, str) else login.refresh_token,
        expires=time.time() + life if isinstance(life, int | float) else 0.0,
    )


async def ask(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    form: dict[str, str] | None = None,
    body: bytes | None = None,
) -> tuple[int, JsonObject]:
    """Return status and JSON of a response; raise `OauthFailure` without a response."""
    headers = {"accept": "application/json"}
    if body is not None:
        headers["content-type"] = "application/json"
    try:
        async with session.request(
            method,
            url,
            data=form if body is None else body,
            headers=headers,
            allow_redirects=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=SECONDS),
        ) as response:
            found, _ = await read_body(response, MOST)
            return response.status, maybe_object(found) or {}
    except TimeoutError:
        raise OauthFailure(f"{url} did not answer within {SECONDS:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise OauthFailure(f"{url} cannot be reached ({error})") from None
    except (UnknownCompression, BrokenCompression) as error:
        raise OauthFailure(f"{url} sent a broken answer ({error})") from None
