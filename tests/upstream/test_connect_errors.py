"""Errors for providers that cannot be connected to: what failed, and what to do."""

import asyncio
import datetime as dt
import ssl

import pytest
from tests.certificates import DAY, Authority
from tests.tables import every_row
from tests.upstream.test_http_connection import Provider, ask, listening

from toolbridge.core.errors import Unreachable, UpstreamError
from toolbridge.upstream.connect_errors import GATEWAY, AskedServer
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.masking import KeyMask

CLEAR = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def _no_own_authority(monkeypatch):
    for name in CLEAR:
        monkeypatch.delenv(name, raising=False)


def context(authority, **options) -> ssl.SSLContext:
    chain, key, _ = authority.issue(**options)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    return server


async def failure(url, **options) -> Unreachable:
    async with Upstream() as upstream:
        with pytest.raises(Unreachable) as caught:
            await ask(upstream, url, **options)
    return caught.value


@pytest.mark.parametrize(
    ("options", "why", "to_do"),
    [
        ({"age": dt.timedelta(days=9)}, "certificate has expired", "Renew the certificate, or "),
        ({"age": -DAY}, "certificate is not yet valid", "Renew the certificate, or correct "),
        (
            {"host": "other.example"},
            "Hostname mismatch, certificate is not valid for 'localhost'",
            "Write a host name in its `url` that the certificate names.",
        ),
    ],
)
async def test_a_certificate_that_is_not_valid_is_described(
    monkeypatch, tmp_path, options, why, to_do
):
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with listening(Provider(), context(authority, **options)) as url:
        error = await failure(url)
    assert f"runs, but its certificate is not accepted ({why}). {to_do}" in str(error)
    assert error.problem.permanent
    assert error.problem.lasting


async def test_an_unknown_authority_can_be_added(tmp_path):
    async with listening(Provider(), context(Authority(tmp_path))) as url:
        error = await failure(url)
    assert "certificate is not accepted (" in str(error)
    assert "If its authority is your own, set `SSL_CERT_FILE` to a PEM file" in str(error)
    assert error.problem.permanent


async def test_the_file_without_the_authority_is_named(monkeypatch, tmp_path):
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    monkeypatch.setenv("SSL_CERT_FILE", str(other.file))
    async with listening(Provider(), context(Authority(tmp_path))) as url:
        error = await failure(url)
    assert f"Add the certificate of its authority to {other.file} (`SSL_CERT_FILE`)" in str(error)


async def test_a_file_that_does_not_exist_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    async with listening(Provider(), context(Authority(tmp_path))) as url:
        error = await failure(url)
    fault = f"`SSL_CERT_FILE` names {tmp_path / 'none.pem'}, which cannot be read (No such file"
    assert fault in str(error)
    assert str(error).endswith(" Correct the variable, and start again.")


async def test_a_server_without_tls_is_called_that():
    async def reject(reader, writer):
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    reject.release = asyncio.Event()
    async with listening(reject) as url:
        error = await failure(url.replace("http:", "https:"))
    assert "runs, but does not use TLS there. Write `http://` in its `url`, or " in str(error)
    assert error.problem.permanent
    assert error.problem.lasting


@pytest.mark.parametrize("alert", [b"", bytes.fromhex("15 0303 0002 02 28")])
async def test_a_server_with_tls_that_is_asked_without_is_described(alert):
    """OpenSSL closes such a connection without a byte; rustls sends an alert (RFC 8446, 6)."""

    async def refuse(reader, writer):
        await reader.read(100)
        writer.write(alert)
        writer.close()

    refuse.release = asyncio.Event()
    async with listening(refuse) as url, Upstream() as upstream:
        with pytest.raises(UpstreamError) as caught:
            await ask(upstream, url)
    assert str(caught.value).endswith(
        " If the server has TLS there, write `https://` in its `url`."
    )
    assert not caught.value.problem.lasting


async def test_a_server_that_is_silent_has_accepted_the_connection():
    async with listening(Provider(hold=True)) as url:
        error = await failure(url.replace("http:", "https:"), waits=(0.2, 5.0))
    assert "accepted the connection, but did not answer with TLS within 0.2 s. Check" in str(error)
    assert not error.problem.permanent


async def test_a_server_that_drops_the_handshake_may_be_back():
    async def drop(reader, writer):
        await reader.read(100)
        writer.close()

    drop.release = asyncio.Event()
    async with listening(drop) as url:
        error = await failure(url.replace("http:", "https:"))
    assert "closed the connection during the TLS handshake. " in str(error)
    assert not error.problem.permanent


async def test_a_failed_handshake_is_described():
    async def refuse(reader, writer):
        await reader.read(100)
        writer.write(bytes.fromhex("15 0303 0002 02 28"))  # RFC 8446, 6: alert handshake_failure
        await reader.read()
        writer.close()

    refuse.release = asyncio.Event()
    async with listening(refuse) as url:
        error = await failure(url.replace("http:", "https:"))
    assert "runs, but the TLS handshake failed (" in str(error)
    assert "handshake failure). Check the TLS settings of the server, and its `url`." in str(error)
    assert error.problem.permanent


@every_row(
    ("provider", "text"),
    [
        ("ollama", "Ollama at a.example cannot be reached (no). Start it with `ollama serve`"),
        (GATEWAY, "the gateway at http://a.example cannot be reached (no). Start it with `tool"),
        ("there", "there at http://a.example cannot be reached (no). Check that it runs and "),
    ],
)
def test_the_next_step_depends_on_the_server(provider, text):
    server = AskedServer(provider, "http://me:secret@a.example/v1?key=x")
    assert str(server.unreachable(ValueError("no"), KeyMask(()))).startswith(text)
