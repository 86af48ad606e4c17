"""Images for a model that accepts none are described by another one (`describe_images`)."""

import asyncio
import json

import aiohttp
import pytest
from tests.peers import gateway, line_of, model_server, ollama, replay, whole

from toolbridge.config import Config, ProviderConfig
from toolbridge.policy.image_descriptions import MAX_CHARACTERS

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
