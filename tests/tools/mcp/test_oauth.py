"""The login at an MCP server: discovery, registration, PKCE, the browser, renewal, and attacks."""

import asyncio
import os
import stat
import time
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
import msgspec
import pytest
from tests.mcp_http import challenge_of, mcp_double

from toolbridge.server_tool_settings import McpServerSettings, ServerToolSettings
from toolbridge.tools.mcp import oauth_login
from toolbridge.tools.mcp.login import Login
from toolbridge.tools.mcp.logins import Logins
from toolbridge.tools.mcp.oauth import OauthFailure
from toolbridge.tools.mcp.oauth_discovery import discover
from toolbridge.tools.mcp.oauth_login import log_in
from toolbridge.tools.mcp.servers import McpServers
from toolbridge.upstream.session import open_session


async def visit(address, **changes):
    """Be the browser: log in, and follow the redirect to the port on loopback."""
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    answer = {"code": "code-1", "state": asked["state"]} | changes
    async with aiohttp.ClientSession() as session:
        async with session.get(
            f"{asked['redirect_uri'].removesuffix('/callback')}/favicon.ico"
        ) as got:
            assert got.status == 404
        async with session.get(f"{asked['redirect_uri']}?{urlencode(answer)}") as got:
            assert got.status == 200
    return asked


async def logged_in(double, browse=visit, **settings):
    challenge = f'Bearer error="x", resource_metadata="{double.url}/meta", scope="read write"'
    given = McpServerSettings(url=f"{double.url}/mcp", **settings)
    visits = []
    async with open_session() as session:
        login = await log_in(
            given, challenge, session, lambda url: visits.append(asyncio.create_task(browse(url)))
        )
        return login, await visits[0]


async def test_a_login_registers_a_client_and_proves_its_code():
    async with mcp_double(tokens=["a1"]) as double:
        login, asked = await logged_in(double)
        assert double.registered["redirect_uris"] == [asked["redirect_uri"]]
        assert double.registered["token_endpoint_auth_method"] == "none"
        assert asked["redirect_uri"].startswith("http://127.0.0.1:")
        assert asked["code_challenge_method"] == "S256"
        assert asked["resource"] == f"{double.url}/mcp"
        assert (asked["client_id"], asked["scope"]) == ("c1", "read write")
        (form,) = double.forms
        assert challenge_of(form["code_verifier"]) == asked["code_challenge"]
        assert (form["code"], form["resource"]) == ("code-1", f"{double.url}/mcp")
    assert (login.access_token, login.refresh_token) == ("a1", "r-a1")
    assert login.expires > time.time() + 3000


async def test_a_client_of_the_settings_is_not_registered():
    async with mcp_double(tokens=["a1"]) as double:
        _, asked = await logged_in(double, client_id="mine", client_secret="s", scope="x")
        assert double.registered == {}
        assert (asked["client_id"], asked["scope"]) == ("mine", "x")
        assert double.forms[0]["client_secret"] == "s"


async def test_a_refused_login_is_an_error():
    async def refuse(address):
        return await visit(address, code="", error="access_denied")

    async with mcp_double(tokens=["a1"]) as double:
        with pytest.raises(OauthFailure, match="access_denied"):
            await logged_in(double, refuse)
        with pytest.raises(OauthFailure, match="invalid_grant"):
            await logged_in(double, lambda address: visit(address, code="bad"))


async def test_a_code_without_the_right_state_is_not_used(monkeypatch):
    monkeypatch.setattr(oauth_login, "SECONDS", 0.5)
    async with mcp_double(tokens=["a1"]) as double:
        with pytest.raises(OauthFailure, match="nobody logged in"):
            await logged_in(double, lambda address: visit(address, state="forged"))
        assert double.forms == []


async def test_a_code_of_another_issuer_is_not_used():
    async with mcp_double(tokens=["a1"]) as double:
        with pytest.raises(OauthFailure, match="another authorization server"):
            await logged_in(double, lambda address: visit(address, iss="https://evil.example.org"))
        assert double.forms == []


@pytest.mark.parametrize(
    ("metadata", "resource", "text"),
    [
        ({"issuer": "https://evil.example.org"}, {}, "another issuer"),
        ({"code_challenge_methods_supported": ["plain"]}, {}, "PKCE"),
        ({"authorization_endpoint": None}, {}, "no endpoints"),
        ({"token_endpoint": "ftp://x/"}, {}, "must be https"),
        ({"token_endpoint": "http://evil.example.org/token"}, {}, "must be https"),
        ({"registration_endpoint": None}, {}, "does not register clients"),
        ({}, {"resource": "https://other.example.org/mcp"}, "about another server"),
        ({}, {"authorization_servers": ["http://evil.example.org"]}, "must be https"),
    ],
)
async def test_wrong_metadata_are_refused(metadata, resource, text):
    async with mcp_double(metadata=metadata, resource=resource) as double:
        with pytest.raises(OauthFailure, match=text):
            await logged_in(double)


async def test_a_public_server_cannot_name_a_private_authorization_server():
    challenge = 'Bearer resource_metadata="http://169.254.169.254/meta"'
    async with open_session() as session:
        with pytest.raises(OauthFailure, match="must be https and public"):
            await discover("https://mcp.example.org/mcp", challenge, session)


async def test_a_server_without_metadata_is_its_own_authorization_server():
    async with mcp_double() as double, open_session() as session:
        found = await discover(f"{double.url}/mcp", "", session)
        assert found.token == f"{double.url}/token"
        assert found.resource == f"{double.url}/mcp"


# ── stored logins ────────────────────────────────────────────────────────────


def stored(double, tmp_path, **changes):
    env = {"XDG_STATE_HOME": str(tmp_path)}
    login = Login(f"{double.url}/mcp", f"{double.url}/token", "c1", "a1", refresh_token="r1")
    Logins(env).save("one", msgspec.structs.replace(login, **changes))
    settings = ServerToolSettings(mcp={"one": McpServerSettings(url=f"{double.url}/mcp")})
    return McpServers(settings, env), env


async def test_a_stored_login_is_used_and_only_its_owner_can_read_it(tmp_path):
    async with mcp_double(token="a1") as double:
        servers, _ = stored(double, tmp_path)
        assert len((await servers.tools("one")).tools) == 2
        await servers.close()
    file = tmp_path / "toolbridge" / "mcp" / "one.json"
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_a_token_is_renewed_when_it_ends_and_when_it_is_refused(tmp_path):
    async with mcp_double(token="a2", tokens=["a2", "a3"]) as double:
        servers, env = stored(double, tmp_path, expires=time.time() + 5)
        assert len((await servers.tools("one")).tools) == 2
        assert double.requests[0][2]["authorization"] == "Bearer a2", "renewed before it ended"
        assert double.forms == [
            {"grant_type": "refresh_token", "refresh_token": "r1", "client_id": "c1"}
        ]
        double.token = "a3"
        found = await asyncio.gather(*(servers.call("one", "echo", {}) for _ in range(5)))
        assert not any(hasattr(one, "code") for one in found)
        assert len(double.forms) == 2, "renewed once for all calls"
        await servers.close()
    assert Logins(env).find("one").access_token == "a3"


async def test_a_token_that_cannot_be_renewed_asks_for_a_login(tmp_path, caplog):
    async with mcp_double(token="other") as double:
        servers, _ = stored(double, tmp_path)
        found = await servers.tools("one")
        await servers.close()
    assert "toolbridge mcp login one" in found.text
    assert "cannot be renewed" in caplog.text
    assert "r1" not in caplog.text


async def test_a_login_is_not_sent_to_another_url(tmp_path):
    async with mcp_double(token="a1") as double:
        servers, _ = stored(double, tmp_path, url="https://mcp.example.org/mcp")
        found = await servers.tools("one")
        await servers.close()
    assert "requires a login" in found.text
    assert all("authorization" not in headers for _, _, headers in double.requests)


async def test_a_login_is_not_used_for_a_server_that_a_request_names(tmp_path):
    async with mcp_double(token="a1") as double:
        _, env = stored(double, tmp_path)
        login, url = Logins(env).find("one"), f"{double.url}/mcp"
        servers = McpServers(ServerToolSettings(mcp_urls=(url,)), env)
        label = servers.named(url)
        Logins(env).save(label, login)
        found = await servers.tools(label)
        await servers.close()
    assert "requires a login" in found.text
    assert all("authorization" not in headers for _, _, headers in double.requests)


async def test_a_header_of_the_settings_comes_before_a_stored_login(tmp_path):
    async with mcp_double(token="own") as double:
        _, env = stored(double, tmp_path)
        one = McpServerSettings(url=f"{double.url}/mcp", headers={"Authorization": "Bearer own"})
        servers = McpServers(ServerToolSettings(mcp={"one": one}), env)
        assert len((await servers.tools("one")).tools) == 2
        await servers.close()


def test_a_broken_file_is_no_login(tmp_path):
    folder = tmp_path / "toolbridge" / "mcp"
    folder.mkdir(parents=True)
    (folder / "one.json").write_text("{broken")
    logins = Logins({"XDG_STATE_HOME": str(tmp_path)})
    assert logins.find("one") is None
    assert logins.forget("one")
    assert not logins.forget("one")
