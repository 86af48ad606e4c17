"""Marks for the end of a prefix to cache: OpenAI's own, and Anthropic's, which others take too."""

import json

import pytest

from toolbridge import codecs
from toolbridge.core.codec import Target
from toolbridge.translate import RequestOptions, plan

CHAT = codecs.load("openai_chat")
MARKED = {"type": "text", "text": "Look", "cache_control": {"type": "ephemeral", "ttl": "1h"}}


def planned(api: str, content: list, target: str, **quirks):
    given = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
    request = codecs.load(api).decode_request(json.dumps(given).encode())
    return plan(request, codecs.load(target), Target(model="m", quirks=quirks), RequestOptions())


def test_a_chat_clients_mark_reaches_anthropic():
    found = planned("openai_chat", [MARKED], "anthropic")
    assert found.outgoing.body["messages"][0]["content"] == [MARKED]
    assert found.losses == ()


def test_anthropics_mark_reaches_a_provider_that_takes_it():
    found = planned("anthropic", [MARKED], "openai_chat", cache_control=True)
    assert found.outgoing.body["messages"][0]["content"] == [MARKED]
    assert found.losses == ()


def test_elsewhere_it_is_a_note_in_the_log():
    found = planned("anthropic", [MARKED], "openai_chat")
    assert found.outgoing.body["messages"][0]["content"] == "Look"
    (loss,) = found.losses
    assert (loss.what, loss.minor) == ("messages.0.content.0.cache_control", True)


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses"])
def test_the_cache_key_is_carried(target):
    body = {"model": "m", "prompt_cache_key": "k", "messages": [{"role": "user", "content": "a"}]}
    request = CHAT.decode_request(json.dumps(body).encode())
    found = plan(request, codecs.load(target), Target(model="m"), RequestOptions())
    assert (found.outgoing.body["prompt_cache_key"], found.losses) == ("k", ())
