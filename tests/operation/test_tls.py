"""TLS on a port of its own, with a real certificate chain."""

import asyncio
import re
import socket
import ssl
import subprocess
import sys

import aiohttp
import anthropic
import openai
import pytest
from cryptography import x509
from tests.certificates import Authority
from tests.operating import ask, config_for, models, reload, rewrite, until
from tests.processes import gateway_process
from websockets.asyncio.client import connect

pytestmark = pytest.mark.operation

HELLO = [{"role": "user", "content": "hi"}]


def tls(cert, key, port: int = 0) -> str:
    return f'[tls]\nport = {port}\ncert = "{cert}"\nkey = "{key}"\n'


async def secure_url(home) -> str:
    out = home / "stdout.log"
    await until(lambda: b"https://" in out.read_bytes())
    return re.search(r"https://\S+", out.read_text())[0]


def shake_hands(url: str, context: ssl.SSLContext) -> None:
    """Open and close a connection; aiohttp would leave the socket of a failed handshake open."""
    host, port = url.removeprefix("https://").split(":")
    with (
        socket.create_connection((host, int(port)), timeout=60) as line,
        context.wrap_socket(line, server_hostname=host),
    ):
        pass


def serial(url: str, authority: Authority) -> int:
    """Return the serial number of the server's certificate; the chain must lead to the root."""
    host, port = url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cafile=authority.file)
    with socket.create_connection((host, int(port))) as plain:
        with context.wrap_socket(plain, server_hostname=host) as secured:
            assert secured.version() in {"TLSv1.2", "TLSv1.3"}
            return x509.load_der_x509_certificate(secured.getpeercert(True)).serial_number


async def test_official_clients_use_it_with_the_chain(tmp_path):
    authority = Authority(tmp_path)
    cert, key, _ = authority.issue()
    async with models("m") as [(_, server)]:
        async with gateway_process(tmp_path, config_for(server, tables=tls(cert, key))) as process:
            url = await secure_url(tmp_path)
            context = ssl.create_default_context(cafile=authority.file)
            http = anthropic.DefaultAsyncHttpxClient(verify=context)
            async with (
                anthropic.AsyncAnthropic(base_url=url, api_key="x", http_client=http) as claude,
                claude.messages.stream(model="x", max_tokens=10, messages=HELLO) as stream,
            ):
                assert await stream.get_final_text() == "m end"
            http = openai.DefaultAsyncHttpxClient(verify=context)
            async with openai.AsyncOpenAI(
                base_url=f"{url}/v1", api_key="x", http_client=http
            ) as gpt:
                done = await gpt.chat.completions.create(model="x", messages=HELLO)
                assert done.choices[0].message.content == "m end"
                assert (await gpt.models.list()).data
            assert await ask(process.url) == "m end", "the port without TLS is served as well"
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.to_thread(shake_hands, url, ssl.create_default_context())


async def test_a_client_that_does_not_finish_its_handshake_is_disconnected(tmp_path):
    authority = Authority(tmp_path)
    cert, key, _ = authority.issue()
    limits = "[http]\nhead_timeout = 0.5\n"
    async with models("m") as [(_, server)]:
        settings = config_for(server, tables=tls(cert, key) + limits)
        async with gateway_process(tmp_path, settings):
            host, port = (await secure_url(tmp_path)).removeprefix("https://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\x16\x03\x01")  # the beginning of a ClientHello
            async with asyncio.timeout(20):
                assert await reader.read() == b""
            writer.close()


async def test_a_websocket_and_a_rejected_request_over_tls(tmp_path):
    authority = Authority(tmp_path)
    cert, key, _ = authority.issue()
    async with models("m") as [(_, server)]:
        async with gateway_process(tmp_path, config_for(server, tables=tls(cert, key))):
            url = await secure_url(tmp_path)
            context = ssl.create_default_context(cafile=authority.file)
            async with connect(f"{url.replace('https', 'wss')}/v1/stream/ws", ssl=context) as ws:
                await ws.send('{"prompt": "x"}')
                assert await ws.recv()
            host, port = url.removeprefix("https://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
            writer.write(b"GET / HTTP/9.9\r\n\r\n")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 505")
            assert b"error" in answer.partition(b"\r\n\r\n")[2]
            writer.close()


async def test_a_client_without_tls_or_with_an_old_version_harms_nobody(tmp_path):
    authority = Authority(tmp_path)
    cert, key, number = authority.issue()
    async with models("m") as [(_, server)]:
        async with gateway_process(tmp_path, config_for(server, tables=tls(cert, key))):
            url = await secure_url(tmp_path)
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await ask(url.replace("https", "http"))
            old = ssl.create_default_context(cafile=authority.file)
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises(ssl.SSLError):
                await asyncio.to_thread(shake_hands, url, old)
            assert await asyncio.to_thread(serial, url, authority) == number


async def test_a_renewed_certificate_is_used_and_a_bad_one_is_not(tmp_path):
    authority = Authority(tmp_path)
    cert, key, first = authority.issue()
    async with models("m") as [(gate, server)]:
        async with gateway_process(tmp_path, config_for(server, tables=tls(cert, key))) as process:
            url = await secure_url(tmp_path)
            context = ssl.create_default_context(cafile=authority.file)
            assert await asyncio.to_thread(serial, url, authority) == first
            gate.open.clear()
            connector = aiohttp.TCPConnector(ssl=context)
            async with aiohttp.ClientSession(connector=connector) as session:
                running = asyncio.create_task(ask(url, session))
                await until(lambda: gate.begun == 1)
                _, _, second = authority.issue()
                assert "was reloaded" in await reload(process)
                assert await asyncio.to_thread(serial, url, authority) == second != first
                gate.open.set()
                assert await running == "m end", "an open connection goes on"
            other = Authority(tmp_path / "..")
            rewrite(key, other.issue("other")[1].read_text())
            line = await reload(process)
            assert f"tls: the key in {key} does not belong to the first certificate" in line
            assert await asyncio.to_thread(serial, url, authority) == second


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda cert, _: cert.unlink(), "tls.cert: {cert} cannot be read (No such file"),
        (lambda _, key: key.unlink(), "tls.key: {key} cannot be read (No such file"),
        (lambda cert, _: cert.write_text("hello"), "tls: {cert} has no certificate in PEM"),
        (lambda _, key: key.write_text("hello"), "tls: {key} has no private key in PEM"),
        (lambda cert, key: cert.write_bytes(key.read_bytes()), "tls: {cert} has no certificate"),
    ],
)
def test_a_bad_pair_is_named_at_the_start(tmp_path, spoil, fault):
    cert, key, _ = Authority(tmp_path).issue()
    spoil(cert, key)
    assert fault.format(cert=cert, key=key) in start(tmp_path, tls(cert, key))


def test_a_key_with_a_password_is_refused(tmp_path):
    cert, key, _ = Authority(tmp_path).issue(password=b"secret")
    assert f"tls.key: {key} is encrypted; decrypt it with `openssl pkey" in start(
        tmp_path, tls(cert, key)
    )


def test_another_address_for_tls_needs_a_key_like_any_other(tmp_path):
    cert, key, _ = Authority(tmp_path).issue()
    text = start(tmp_path, tls(cert, key) + 'host = "0.0.0.0"\n')
    assert "tls.host: the gateway does not listen on 0.0.0.0 without a key" in text


def start(home, text: str) -> str:
    (home / "t.toml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "toolbridge", "serve", "--port=0", "--config=t.toml"],
        cwd=home, env={"HOME": str(home), "OLLAMA_HOST": "127.0.0.1:1"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr
