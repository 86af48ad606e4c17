"""Streams with server tools: the official SDKs accept every event, and read the answer."""

import json

import pytest
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from google.genai import types as genai
from ollama import ChatResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from tests import transcript
from tests.properties.subjects import ASKED, decoded, encoded
from tests.sdk_clients.test_every_api import bridged
from tests.sdks import SDKS

from toolbridge import codecs
from toolbridge.core.fold import collect

STORIES = [
    "anthropic/code-execution",
    "anthropic/server-tool-use",
    "gemini/code-execution",
    "gemini/search-with-passages-in-bytes",
    "gemini/tool-call-parts",
    "gemini/url-context",
    "openai_responses/code-interpreter",
    "openai_responses/mcp",
    "openai_responses/searches-at-the-same-time",
    "openai_responses/tool-search-of-the-server",
]
EVENTS = {
    "anthropic": TypeAdapter(BetaRawMessageStreamEvent),
    "openai_responses": TypeAdapter(ResponseStreamEvent),
    "openai_chat": TypeAdapter(ChatCompletionChunk),
    "gemini": TypeAdapter(genai.GenerateContentResponse),
    "ollama": TypeAdapter(ChatResponse),
}
"""What the SDKs are generated from, checked strictly: at run time they accept anything."""
WHOLE = {
    "anthropic": TypeAdapter(BetaMessage),
    "openai_responses": TypeAdapter(Response),
    "openai_chat": TypeAdapter(ChatCompletion),
    "gemini": TypeAdapter(genai.GenerateContentResponse),
    "ollama": TypeAdapter(ChatResponse),
}
every_story = pytest.mark.parametrize("story", STORIES)
every_api = pytest.mark.parametrize("api", sorted(EVENTS))


def answer_of(story: str):
    first = transcript.read(transcript.HOME / f"{story}.md").fences[0]
    codec = codecs.load(first.language)
    return decoded(codec, [first.text.encode()])


def events_of(written: bytes, api: str) -> list[dict]:
    lines = written.decode().splitlines()
    if api == "ollama":
        return [json.loads(line) for line in lines if line]
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(one) for one in data if one != "[DONE]"]


@every_api
@every_story
def test_the_sdk_knows_every_event(story, api):
    written = encoded(codecs.load(api), answer_of(story))
    for event in events_of(written, api):
        event.pop("toolbridge", None)  # losses: a field of ours in the last event
        if event.get("type") != "ping":
            EVENTS[api].validate_python(event)


@every_api
@every_story
def test_the_sdk_knows_the_whole_answer(story, api):
    body = codecs.load(api).encode_message(collect(answer_of(story)), ASKED)
    WHOLE[api].validate_json(body)


@pytest.mark.parametrize(
    ("story", "text"),
    [
        ("openai_responses/searches-at-the-same-time", "Größe: 51 km² 🙂"),
        ("gemini/search-with-passages-in-bytes", "Größe 🙂 51 km²."),
    ],
)
@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
async def test_an_answer_with_searches_is_read_over_a_socket(sdk, story, text):
    first = transcript.read(transcript.HOME / f"{story}.md").fences[0]

    async def answer(_heard, line):
        await line.head(200, "text/event-stream")
        await line.send(first.text)
        await line.end()

    async with bridged(first.language, answer) as (url, _), sdk(url) as talk:
        said = await talk.ask("How large is Bern?", stream=True)
    assert said.text.startswith(text)
    assert said.stop == "end"
