"""Places that do not answer, and what their clients are told."""

import asyncio
import time
from email.utils import formatdate

import aiohttp
import pytest
from tests.peers import bridged, gateway, model_server

from toolbridge.config import Config, ProviderConfig
from toolbridge.wire.ndjson import MAX_LINE

ASK = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
NGINX = "<html><h1>400 Bad Request</h1>The plain HTTP request was sent to HTTPS port</html>"
GO = "Client sent an HTTP request to an HTTPS server."
PAGE = "<!doctype html><html><script>x < y</script><h1>Not here</h1></html>"


def says(status: int, text: str = "", kind: str = "application/json", **headers: str):
    async def chat(_, line):
        extra = "".join(f"{name.replace('_', '-')}: {v}\r\n" for name, v in headers.items())
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(text)}\r\n"
        await line.raw(f"{head}{extra}\r\n{text}".encode())

    return chat


async def ask(url: str, *, stream: bool = False, headers: dict[str, str] | None = None):
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{url}/v1/messages", json=ASK | {"stream": stream}, headers=headers or {}
        ) as answer,
    ):
        return answer, (await answer.json())["error"]


@pytest.mark.req("CL-09", "PX-48")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("chat", "status", "words"),
    [
        (says(302, "<a>", location="http://127.0.0.1:9/login"), 500, "redirects to http://127.0.0"),
        (says(204), 502, "ollama answered with status 204 and an empty body; check its `url`"),
        (says(200), 502, "ollama answered with status 200 and an empty body; check its `url`"),
        (says(205, "\n"), 502, "ollama answered with status 205 and an empty body; check"),
        (says(304), 502, "ollama answered with status 304 and an empty body; check its `url`"),
        (says(999, "<b>no</b>"), 502, "ollama answered with status 999: no; check its `url`"),
        (says(404, PAGE, "text/html"), 500, "check its `url`"),
        (says(500, PAGE, "text/html"), 500, "ollama answered 500 with a web page: Not here"),
        (says(503, PAGE, "text/html"), 529, "Not here"),
        (says(400, '{"error": "no such option"}'), 400, "ollama: no such option"),
        (says(400, NGINX, "text/html"), 500, "ollama has TLS at this address. Write `https://` in"),
        (says(400, GO, "text/plain"), 500, "ollama has TLS at this address. Write `https://` in"),
        (says(500, '{"error": "' + "x" * 2_000_000 + '"}'), 500, "xxx"),
        (says(200, "rubbish", content_encoding="br"), 502, "did not answer with valid HTTP"),
    ],
    ids=[
        "redirect",
        "204",
        "200",
        "205",
        "304",
        "999",
        "404 page",
        "500 page",
        "503 page",
        "400",
        "nginx with TLS",
        "Go with TLS",
        "2 MB",
        "brotli",
    ],
)
async def test_what_is_no_answer_is_an_error_that_names_the_place(chat, status, words, stream):
    async with bridged(chat, place={"retries": 0}) as (url, *_):
        answer, error = await ask(url, stream=stream)
    assert answer.status == status
    assert words in error["message"]
    assert "<" not in error["message"]
    assert len(error["message"]) < 5000


@pytest.mark.req("CL-09")
@pytest.mark.parametrize("status", [429, 503])
async def test_a_date_to_ask_again_becomes_seconds(status):
    chat = says(status, '{"error": "busy"}', retry_after=formatdate(time.time() + 100, usegmt=True))
    async with bridged(chat, place={"retries": 0}) as (url, *_):
        answer, _ = await ask(url)
    assert 95 <= int(answer.headers["retry-after"]) <= 100


async def test_a_key_that_a_provider_repeats_is_not_shown():
    chat = says(401, '{"error": "bad key: Bearer sk-sesame"}')
    async with bridged(chat, place={"key": "sk-sesame", "retries": 0}) as (url, *_):
        _, error = await ask(url)
    assert error["message"] == "ollama: bad key: Bearer [key]"


async def test_an_empty_answer_is_handed_on_where_nothing_may_be_asked_twice():
    empty = says(200, '{"message": {"content": ""}, "done": true, "done_reason": "stop"}')
    async with bridged(empty, place={"retries": 0}) as (url, server, _):
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/messages", json=ASK) as answer,
        ):
            assert answer.status == 200
        assert len(server.chats()) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_web_page_is_not_handed_on_to_a_client_of_the_same_api(stream):
    async with model_server(says(502, PAGE, "text/html")) as place:
        config = Config(
            log="off",
            map={"default": "anthropic/m"},
            providers={"anthropic": ProviderConfig(api="anthropic", url=place.url, retries=0)},
        )
        async with gateway(config) as (url, _):
            answer, error = await ask(url, stream=stream)
    assert answer.status == 502
    assert "anthropic answered 502 with a web page: Not here" in error["message"]


async def test_tls_to_a_plain_port_is_given_up_after_the_time_for_connecting():
    async with model_server(says(200)) as place:
        url = place.url.replace("http:", "https:")
        provider = ProviderConfig(api="openai_chat", url=url, retries=0, connect_timeout=0.3)
        config = Config(log="off", map={"default": "x/m"}, providers={"x": provider})
        async with gateway(config) as (front, _):
            began = time.monotonic()
            answer, error = await ask(front)
    assert answer.status == 502
    assert "accepted the connection, but did not answer with TLS within 0.3 s" in error["message"]
    assert time.monotonic() - began < 20


async def connections_for(retries: int) -> int:
    """Return how often a gateway connects to a server without TLS for a request with TLS."""
    counted = []

    async def reject(reader, writer):
        counted.append(1)
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(reject, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provider = ProviderConfig(
        api="openai_chat", url=f"https://127.0.0.1:{port}/v1", retries=retries
    )
    config = Config(log="off", map={"default": "x/m"}, providers={"x": provider})
    async with server, gateway(config) as (front, _):
        answer, error = await ask(front)
    assert answer.status == 502
    assert "does not use TLS there" in error["message"]
    return len(counted)


async def test_a_fault_of_tls_is_not_retried():
    assert await connections_for(retries=2) == await connections_for(retries=0)


async def refused(says, api="anthropic", *, stream=False, **settings):
    """Ask a gateway before a provider `x` that answers like this; return response and error."""
    async with model_server(says) as place:
        provider = ProviderConfig(api=api, url=place.url, retries=0, **settings)
        config = Config(log="off", map={"default": "x/m"}, providers={"x": provider})
        async with gateway(config) as (url, _):
            return await ask(url, stream=stream)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("passthrough", [True, False])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain"])
async def test_a_web_page_is_one_whatever_it_is_called(kind, passthrough, stream):
    answer, error = await refused(says(200, PAGE, kind), passthrough=passthrough, stream=stream)
    assert answer.status == 502
    assert "x answered 200 with a web page: Not here; check its `url`" in error["message"]


@pytest.mark.parametrize("api", ["anthropic", "openai_chat", "openai_responses"])
async def test_json_that_is_no_answer_is_called_that(api):
    answer, error = await refused(says(200, "{}"), api)
    text = error["message"].removeprefix("x: ")
    assert (answer.status, text) == (502, "the upstream sent JSON that is no answer")


LINE = '{"model":"m","message":{"role":"assistant","content":"hi"},"done":false}\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LINE, "o: the upstream closed the stream before a line with `done: true`"),
        (LINE + "{" + "x" * MAX_LINE, "o: "),
    ],
    ids=["cut", "long line"],
)
async def test_a_failure_in_the_middle_names_the_provider(text, words):
    """The name is one that is also a part of the words."""
    async with model_server(says(200, text, "application/x-ndjson")) as place:
        provider = ProviderConfig(api="ollama", url=place.url, retries=0)
        config = Config(log="off", map={"default": "o/m"}, providers={"o": provider})
        async with gateway(config) as (url, _):
            _, error = await ask(url)
    assert error["message"].startswith(words)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("passthrough", [True, False])
async def test_an_empty_body_is_called_that(passthrough, stream):
    nothing = says(200, "", "text/event-stream")
    answer, error = await refused(nothing, passthrough=passthrough, stream=stream)
    assert answer.status == 502
    assert error["message"] == "x answered with status 200 and an empty body; check its `url`"


async def test_a_rejection_without_json_names_the_proxy(monkeypatch):
    """A proxy may have answered itself; nothing in its response shows it."""
    async with model_server(says(403, "denied", "text/plain")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        provider = ProviderConfig(api="anthropic", url="http://provider.example", retries=0)
        config = Config(log="off", map={"default": "x/m"}, providers={"x": provider})
        async with gateway(config) as (url, _):
            _, error = await ask(url)
    through = f"denied (through the proxy {proxy.url} in `http_proxy`, which may have answered"
    assert through in error["message"]
