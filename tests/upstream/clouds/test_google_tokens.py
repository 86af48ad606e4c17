"""Tokens of Google Cloud from files, over a loopback token server that verifies the assertion."""

import asyncio
import json
import time
from base64 import urlsafe_b64decode
from functools import cache
from importlib import reload
from urllib.parse import parse_qs

import pytest
from tests.peers import model_server, whole

from toolbridge.config import ProviderConfig
from toolbridge.core.errors import ConfigError
from toolbridge.upstream.clouds import chains
from toolbridge.upstream.clouds.available import find_file
from toolbridge.upstream.clouds.google_endpoint import GoogleEndpoint
from toolbridge.upstream.clouds.google_tokens import CredentialsFile, fetch_token, read_file
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.http_request import HttpRequest

GEMINI = HttpRequest("/v1beta/models/gemini-4:generateContent", b"{}")


@cache
def rsa_key():
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def service_account(token_uri: str, **more: str) -> str:
    from cryptography.hazmat.primitives import serialization as s

    pem = rsa_key().private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    return json.dumps(
        {
            "type": "service_account", "project_id": "p-1", "private_key_id": "kid-1",
            "private_key": pem.decode(), "client_email": "robot@p-1.iam.gserviceaccount.com",
            "token_uri": token_uri, **more,
        }
    )  # fmt: skip


def verified(assertion: str) -> dict:
    """Return the claims of a JWT; raise if its signature is wrong."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    text, _, signature = assertion.rpartition(".")
    raw = urlsafe_b64decode(signature + "==")
    rsa_key().public_key().verify(raw, text.encode(), padding.PKCS1v15(), hashes.SHA256())
    header, claims = (json.loads(urlsafe_b64decode(part + "==")) for part in text.split("."))
    assert header == {"alg": "RS256", "typ": "JWT", "kid": "kid-1"}
    return claims


async def tokens(heard, line):
    """Answer as Google's token server: for an assertion, or for a refresh token."""
    form = {name: values[0] for name, values in parse_qs(heard.body.decode()).items()}
    if form["grant_type"] == "refresh_token":
        right = form["refresh_token"] == "1//good"
    else:
        claims = verified(form["assertion"])
        right = (
            claims["aud"] == "https://oauth2.googleapis.com/token"
            and claims["iss"] == "robot@p-1.iam.gserviceaccount.com"
            and claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
            and claims["exp"] - claims["iat"] == 3600
            and abs(claims["iat"] - time.time()) < 60
        )
    if right:
        await whole(line, {"access_token": "ya29.t", "expires_in": 3599, "token_type": "Bearer"})
    else:
        await whole(line, {"error": "invalid_grant", "error_description": "Token has been revoked."}, 400)  # fmt: skip


async def signed(env: dict[str, str], **settings: str):
    async with Upstream() as upstream:
        config = ProviderConfig(api="gemini", cloud="vertex", url="https://{location_host}", **settings)  # fmt: skip
        endpoint = GoogleEndpoint("vertex", config, upstream, env)
        first, *_ = await asyncio.gather(
            *(endpoint.sign("gemini", "gemini-4", GEMINI) for _ in range(5))
        )
        return first


async def test_a_service_account_gets_a_token_once_and_has_its_own_project(tmp_path):
    file = tmp_path / "key.json"
    async with model_server(tokens) as server:
        file.write_text(service_account(f"{server.url}/token"))
        sent = await signed({"GOOGLE_APPLICATION_CREDENTIALS": str(file)}, location="us")
    assert sent.headers["authorization"] == "Bearer ya29.t"
    assert sent.url == (
        "https://aiplatform.us.rep.googleapis.com/v1beta1/projects/p-1/locations/us"
        "/publishers/google/models/gemini-4:generateContent"
    )
    assert len(server.heard) == 1


@pytest.mark.parametrize("good", [True, False])
async def test_a_users_file_has_a_refresh_token_and_a_quota_project(tmp_path, good):
    folder = tmp_path / ".config" / "gcloud"
    folder.mkdir(parents=True)
    async with model_server(tokens) as server:
        user = {"type": "authorized_user", "client_id": "i", "client_secret": "s",
                "refresh_token": "1//good" if good else "1//bad", "quota_project_id": "q",
                "token_uri": f"{server.url}/token"}  # fmt: skip
        (folder / "application_default_credentials.json").write_text(json.dumps(user))
        env = {"HOME": str(tmp_path), "GOOGLE_CLOUD_PROJECT": "p-2"}
        if not good:
            with pytest.raises(
                ConfigError, match=r"revoked.*gcloud auth application-default login"
            ):
                await signed(env)
            return
        sent = await signed(env)
    assert sent.headers["x-goog-user-project"] == "q"
    assert sent.url.startswith(
        "https://aiplatform.googleapis.com/v1beta1/projects/p-2/locations/global/"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("not json", "is not a credentials file"),
        ('{"type": "service_account", "private_key": "x"}', "not a PEM key"),
        ("[1]", "is not a credentials file"),
    ],
)
async def test_a_broken_file_is_an_error(tmp_path, content, words):
    file = tmp_path / "key.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=words):
        await signed({}, credentials_file=str(file), project="p")


def test_files_are_found_as_googles_tools_find_them(tmp_path):
    assert find_file("", {}) is None
    assert find_file("", {"HOME": str(tmp_path)}) is None
    usual = tmp_path / "application_default_credentials.json"
    usual.write_text("{}")
    assert find_file("", {"CLOUDSDK_CONFIG": str(tmp_path)}) == usual
    assert str(find_file("a.json", {"GOOGLE_APPLICATION_CREDENTIALS": "b.json"})) == "a.json"
    assert read_file(usual, "vertex").type == ""


async def test_the_metadata_server_is_reached_through_google_auth(monkeypatch, tmp_path):
    pytest.importorskip("google.auth", reason="google-auth is not installed")
    from google.auth.compute_engine import _metadata

    async def metadata(heard, line):
        assert heard.headers["metadata-flavor"] == "Google"
        flavor = {"Metadata_Flavor": "Google"}
        if "/token" in heard.path:
            body = json.dumps(
                {"access_token": "ya29.m", "expires_in": 3599, "token_type": "Bearer"}
            )
        elif "project-id" in heard.path:
            body = "p-meta"
        else:
            body = json.dumps({"email": "default", "scopes": [], "aliases": []})
        kind = "application/json" if body.startswith("{") else "text/plain"
        await line.head(200, kind, **flavor)
        await line.send(body)
        await line.end()

    async with model_server(metadata) as server:
        host = server.url.removeprefix("http://")
        for name, value in {"GCE_METADATA_HOST": host, "GCE_METADATA_IP": host, "CLOUDSDK_CONFIG": str(tmp_path)}.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
            monkeypatch.delenv(name, raising=False)
        reload(_metadata)  # it reads the environment when it is imported
        token, project = await chains.google_token("vertex")
    monkeypatch.undo()
    reload(_metadata)
    assert (token.value, project) == ("ya29.m", "p-meta")
    assert 3000 < token.until - time.time() < 3700


@pytest.mark.parametrize(
    ("given", "seconds"), [({"expires_in": 100}, 100), ({}, 3600), ({"expires_in": "soon"}, 3600)]
)
async def test_a_token_is_used_for_as_long_as_google_says_or_for_an_hour(given, seconds):
    async def answer(_, line) -> None:
        await whole(line, {"access_token": "ya29.t", **given})

    async with model_server(answer) as server, Upstream() as upstream:
        file = CredentialsFile("authorized_user", token_uri=f"{server.url}/token")
        before = time.time()
        token = await fetch_token(upstream, file, "vertex")
    assert token.value == "ya29.t"
    assert before + seconds <= token.until <= time.time() + seconds
