"""The range of dates of a web search: kept by Gemini, reported as lost by the other APIs."""

import pytest

from toolbridge.codecs.anthropic.typed_tools import encode_server_tool as anthropic
from toolbridge.codecs.gemini.builtin_tools import decode_server_tool
from toolbridge.codecs.gemini.builtin_tools import encode_server_tool as gemini
from toolbridge.codecs.openai_chat.search_options import encode_server_tool as openai_chat
from toolbridge.codecs.openai_responses.hosted_tools import encode_server_tool as openai_responses
from toolbridge.core.codec import Target
from toolbridge.core.messages import Request

TIMES = {"startTime": "2026-01-31T00:00:00Z", "endTime": "2026-02-28T00:00:00Z"}
RANGES = [TIMES, {"startTime": TIMES["startTime"]}, {"endTime": TIMES["endTime"]}]


def encoded(encode, times, quirks):
    """Return the declaration for another API, and what is reported as lost."""
    tool = decode_server_tool("googleSearch", {"timeRangeFilter": times})
    lost = []
    target = Target(model="gemini-3.1-pro", quirks=quirks)
    request = Request(model="gemini-3.1-pro", turns=())
    return encode(tool, request, target, lambda what, *_: lost.append(what)), lost


@pytest.mark.parametrize("times", RANGES)
def test_gemini_gets_the_range(times):
    assert encoded(gemini, times, {}) == ({"googleSearch": {"timeRangeFilter": times}}, [])


@pytest.mark.parametrize("times", RANGES)
@pytest.mark.parametrize(
    ("encode", "quirks"),
    [
        (anthropic, {}),
        (openai_responses, {}),
        (openai_chat, {"web_search": "options"}),
        (openai_chat, {"web_search": "openrouter"}),
    ],
)
def test_other_apis_report_it_as_lost(encode, quirks, times):
    declared, lost = encoded(encode, times, quirks)
    assert declared is not None
    assert lost == ["timeRangeFilter"]


def test_without_a_range_nothing_is_lost():
    assert encoded(anthropic, {}, {})[1] == []
    assert encoded(gemini, {}, {}) == ({"googleSearch": {}}, [])
