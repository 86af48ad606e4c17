"""Images for a model that accepts none are described by another one (`describe_images`)."""

import asyncio
import json
import re
import sqlite3

import aiohttp
import pytest
from tests.key_users import create, key
from tests.peers import gateway, line_of, model_server, ollama, replay, whole

from toolbridge.config import Config, ModelConfig, ProviderConfig, RatesConfig
from toolbridge.policy.image_descriptions import MAX_CHARACTERS
from toolbridge.server import created_keys

RED = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BLUE = RED.replace("mNk", "mNg")
TEXT = {"type": "text", "text": "what is this?"}


def picture(data: str) -> dict:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def said(role: str, *content) -> dict:
    return {"role": role, "content": list(content)}


def result(*content) -> dict:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": list(content)}


CALL = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}


class Models:
    """An Ollama whose model `eyes` sees and describes, and whose model `main` does neither."""

    def __init__(self, description: str = "A red dot.", *, eyes=("completion", "vision")) -> None:
        self.description = description
        self.eyes = eyes
        self.most_at_once = self._now = 0

    async def answer(self, heard, line) -> None:
        if heard.path == "/api/show":
            sees = heard.json["model"].startswith("eyes")
            can = self.eyes if sees else ["completion", "tools"]
            await whole(line, {"capabilities": can, "model_info": {}})
            return
        text = "ok"
        if heard.path == "/api/chat" and heard.json["model"] == "eyes":
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            await asyncio.sleep(0.01)
            self._now -= 1
            text = self.description
            if text == "fail":
                await whole(line, {"error": "out of memory"}, 400)
                return
        chat = replay(line_of(text, done=True))
        await ollama(chat, models=("main:latest", "eyes:latest"))(heard, line)


async def ask(url: str, *messages: dict, stream: bool = False) -> tuple[str, str]:
    """Return the body of the answer and the warning."""
    body = {"model": "claude-x", "max_tokens": 9, "messages": list(messages), "stream": stream}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/messages", json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return await answer.text(), answer.headers.get("x-toolbridge-warning", "")


def config(url: str, **fields) -> Config:
    return Config(
        log="off",
        map={"default": "ollama/main"},
        providers={"ollama": ProviderConfig(api="ollama", url=url, retries=0)},
        **{"describe_images": "ollama/eyes", **fields},
    )


def chats(server, model: str) -> list[dict]:
    found = [heard.json for heard in server.heard if heard.path == "/api/chat"]
    return [body for body in found if body["model"] == model]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_description_takes_the_place_of_the_image(stream):
    models = Models()
    async with model_server(models.answer) as server, gateway(config(server.url)) as (url, _):
        body, warning = await ask(url, said("user", TEXT, picture(RED)), stream=stream)
    assert "ok" in body
    (asked,) = chats(server, "eyes")
    assert asked["messages"][0]["images"] == [RED]
    (sent,) = chats(server, "main")
    assert "images" not in json.dumps(sent)
    text = sent["messages"][-1]["content"]
    assert text.startswith("what is this?")
    assert "[Image, described by ollama/eyes:\nA red dot.]" in text
    assert warning == (
        "messages.0.content.1: the model accepts no images; replaced by a description of ollama/eyes"
    )


async def test_a_reload_turns_descriptions_on_and_off():
    models = Models()
    async with (
        model_server(models.answer) as server,
        gateway(config(server.url, describe_images="")) as (url, app),
    ):
        _, warning = await ask(url, said("user", TEXT, picture(RED)))
        assert "description" not in warning
        off = app.gateway
        app.gateway = off.renewed(config(server.url))
        _, warning = await ask(url, said("user", TEXT, picture(RED)))
        assert "replaced by a description of ollama/eyes" in warning
        app.gateway = app.gateway.renewed(config(server.url, describe_images=""))
        _, warning = await ask(url, said("user", TEXT, picture(RED)))
        assert "description" not in warning
    assert len(chats(server, "eyes")) == 1


async def test_an_image_is_described_once_wherever_it_stands():
    models = Models()
    first = said("user", TEXT, picture(RED))
    history = [
        first,
        said("assistant", CALL),
        said("user", result({"type": "text", "text": "shot"}, picture(RED), picture(BLUE))),
    ]
    async with model_server(models.answer) as server, gateway(config(server.url)) as (url, _):
        await ask(url, first)
        _, warning = await ask(url, *history)
        _, again = await ask(url, *history)
    assert len(chats(server, "eyes")) == 2
    one, *later = (body["messages"] for body in chats(server, "main"))
    assert all(messages[0] == one[0] for messages in later)  # the prefix stays the same
    assert json.dumps(later[0]).count("A red dot.") == 3
    assert warning == again
    assert warning.count("replaced by a description") == 3
    assert "messages.2.content.0.content.2: " in warning


async def test_images_of_one_request_are_described_at_the_same_time_but_not_all():
    models = Models()
    shots = [picture(RED.replace("mNk", f"mN{letter}")) for letter in "abcdefgh"]
    async with model_server(models.answer) as server, gateway(config(server.url)) as (url, _):
        await ask(url, said("user", TEXT, *shots))
    assert len(chats(server, "eyes")) == 8
    assert 1 < models.most_at_once <= 4


async def test_a_description_is_bounded():
    models = Models("word " * 5000)
    async with model_server(models.answer) as server, gateway(config(server.url)) as (url, _):
        await ask(url, said("user", TEXT, picture(RED)))
    (sent,) = chats(server, "main")
    assert MAX_CHARACTERS < len(sent["messages"][-1]["content"]) < MAX_CHARACTERS + 100


@pytest.mark.parametrize(
    ("models", "why"),
    [
        (Models("fail"), "out of memory"),
        (Models(" "), "empty"),
        (Models(eyes=("completion",)), "ollama/eyes accepts no images"),
    ],
    ids=["error", "empty", "blind"],
)
async def test_an_image_that_is_not_described_is_left_out_with_the_reason(models, why):
    async with model_server(models.answer) as server, gateway(config(server.url)) as (url, _):
        body, warning = await ask(url, said("user", TEXT, picture(RED)))
    assert "ok" in body
    (sent,) = chats(server, "main")
    assert RED not in json.dumps(sent)
    assert why in warning
    assert "cannot see images" in warning


@pytest.mark.parametrize("setting", ["", "ollama/eyes"])
async def test_a_model_that_sees_gets_the_image(setting):
    models = Models()
    async with model_server(models.answer) as server:
        base = config(
            server.url,
            describe_images=setting,
        )
        seeing = Config(
            log="off", map={"default": "ollama/eyes"}, providers=base.providers,
            describe_images=setting,
        )  # fmt: skip
        async with gateway(seeing) as (url, _):
            _, warning = await ask(url, said("user", TEXT, picture(RED)))
    (sent,) = chats(server, "eyes")
    assert sent["messages"][-1]["images"] == [RED]
    assert not warning


async def test_an_image_that_the_other_model_cannot_get_is_not_invented():
    """Ollama takes images as data only: a URL would be left out, and the model would guess."""
    models = Models()
    there = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    async with model_server(models.answer) as server, gateway(config(server.url)) as (url, _):
        _, warning = await ask(url, said("user", TEXT, there))
    assert chats(server, "eyes") == []
    assert "ollama/eyes did not describe an image" in warning
    (sent,) = chats(server, "main")
    assert "described by" not in sent["messages"][-1]["content"]


class EyesElsewhere:
    """Two Chat servers' answers: the main model, and one that describes for a price."""

    def __init__(self) -> None:
        self.described = 0

    async def answer(self, heard, line) -> None:
        if heard.json.get("model") == "vis":
            self.described += 1
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        message = {"role": "assistant", "content": "A red dot."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await whole(line, {"id": "c", "choices": [choice], "usage": usage})


def two_providers(url: str) -> Config:
    provider = ProviderConfig(api="openai_chat", url=url, retries=0)
    rates = RatesConfig(input=1.0, output=10.0)
    return Config(
        log="off",
        map={"default": "q/ok"},
        providers={"q": provider, "b": provider},
        models={
            "q/ok": ModelConfig(rates=rates, vision=False),
            "b/vis": ModelConfig(rates=rates, vision=True),
        },
        describe_images="b/vis",
    )


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(created_keys, "_PAUSE", 0.0)
    return tmp_path


async def ask_as(url: str, key: str) -> tuple[str, str]:
    body = {"model": "x", "max_tokens": 9, "messages": [said("user", TEXT, picture(RED))]}
    async with (
        aiohttp.ClientSession(headers={"x-api-key": key}) as session,
        session.post(f"{url}/v1/messages", json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return answer.headers["request-id"], answer.headers.get("x-toolbridge-warning", "")


async def test_a_description_keeps_to_the_models_of_the_key(state):
    models = EyesElsewhere()
    async with model_server(models.answer) as server:
        narrow, wide = await create("narrow", "--models", "q/*"), await create("wide")
        env = {"XDG_STATE_HOME": str(state)}
        async with gateway(two_providers(server.url), env) as (url, _):
            _, warning = await ask_as(url, narrow)
            assert (models.described, "may not use b/vis" in warning) == (0, True), warning
            await ask_as(url, wide)  # now the description is kept
            _, warning = await ask_as(url, narrow)
    assert (models.described, "may not use b/vis" in warning) == (1, True), warning


async def test_a_description_is_charged_has_a_row_and_is_explained(state):
    models = EyesElsewhere()
    async with model_server(models.answer) as server:
        # One request at a time: the description belongs to the request that needs it.
        alice = await create(
            "alice", "--tokens", "100k/day", "--requests", "5/day", "--concurrency", "1"
        )
        env = {"XDG_STATE_HOME": str(state)}
        async with gateway(two_providers(server.url), env) as (url, _):
            id, _ = await ask_as(url, alice)
            async with (
                aiohttp.ClientSession(headers={"x-api-key": alice}) as session,
                session.get(f"{url}/v1/explain/{id}") as found,
            ):
                explained = await found.json()
    assert explained["descriptions"] == [
        {"model": "b/vis", "status": 200, "input": 100, "output": 10, "cost_usd": 0.0002}
    ]
    ledger = sqlite3.connect(state / "toolbridge" / "ledger.sqlite")
    rows = ledger.execute("select provider, key, api, input from requests order by provider")
    assert rows.fetchall() == [
        ("b", "alice", "describe_images", 100),
        ("q", "alice", "anthropic", 100),
    ]
    shown = await key("show", "alice")
    assert "220 tokens of 100,000" in shown
    assert re.search(r"used +1 requests? of 5", shown), shown
