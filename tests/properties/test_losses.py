"""What answers lose: nothing where they hold nothing special, and all of it where they do."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from tests.properties.subjects import CODECS, INPUTS, decoded
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import all_losses
from toolbridge.core.fold import collect

RECORDED = Path(__file__).parents[1] / "recorded"


def beyond(apis: str, *kinds: str) -> dict[str, set[str]]:
    """What is lost in every API but `apis`."""
    others = set(codecs.names()) - set(apis.split())
    return {api: {f"answer.{kind}" for kind in kinds} for api in others}


def both(*found: dict[str, set[str]]) -> dict[str, set[str]]:
    return {api: set().union(*(one.get(api, set()) for one in found)) for api in {*chain(*found)}}


UNCITED = {"ollama": {"answer.citations"}}
"""Only Ollama's text cites nothing."""


WITH_SEARCH = WITH_CODE = "anthropic gemini openai_responses"
"""The APIs whose answers contain searches, fetched pages and executed code."""

SPECIAL: dict[str, dict[str, set[str]]] = {
    "anthropic/code-execution": beyond(WITH_CODE, "code_execution"),
    "openai_responses/code-interpreter": beyond(WITH_CODE, "code_execution"),
    "anthropic/server-tool-use": both(beyond(WITH_SEARCH, "web_search"), UNCITED),
    "gemini/search-sources": beyond(WITH_SEARCH, "web_search"),
    "gemini/search-with-passages-in-bytes": both(beyond(WITH_SEARCH, "web_search"), UNCITED),
    "gemini/url-context": beyond(WITH_SEARCH, "web_fetch"),
    "gemini/tool-call-parts": both(
        beyond(WITH_SEARCH, "web_search"),
        beyond(WITH_CODE, "code_execution"),
        beyond("gemini", "webSearchQueries"),
    ),
    "openai_responses/searches-at-the-same-time": both(
        beyond(WITH_SEARCH, "web_search", "web_fetch"), UNCITED
    ),
    "openai_responses/mcp": beyond("anthropic openai_responses", "mcp"),
    "openai_responses/tool-search-of-the-server": beyond(
        "anthropic openai_responses", "tool_search"
    ),
    "openai_chat/citations": UNCITED,
    "anthropic/refusal-with-details": both(
        beyond("anthropic ollama", "stop_details.category"), {"ollama": {"answer.stop_details"}}
    ),
    "gemini/blocked-prompt": beyond("gemini", "stop_details.category"),
    "anthropic/unknown-block": beyond("anthropic", "hologram"),
    "gemini/audio": beyond("gemini", "audio"),
    "openai_chat/audio": beyond("openai_chat", "audio"),
    "gemini/second-candidate": beyond("gemini openai_chat", "choices"),
    "openai_chat/second-choice": beyond("gemini openai_chat", "choices"),
    "gemini/code-execution": beyond(WITH_CODE, "code_execution"),
    "gemini/picture-in-the-answer": beyond("gemini openai_chat openai_responses", "image"),
    "openai_responses/picture-in-the-answer": beyond(
        "gemini openai_chat openai_responses", "image"
    ),
    "openai_responses/unknown-events-and-items": beyond("openai_responses", "brand_new_item"),
    "openai_responses/web-search-and-citation": both(beyond(WITH_SEARCH, "web_search"), UNCITED),
}
"""The transcripts that lose something, and what, by the API that writes them."""


def losses(codec, data: bytes) -> dict[str, set[str]]:
    """What the answer loses in each API."""
    message = collect(decoded(codec, [data]))
    found = {
        param.id: {loss.what for loss in all_losses(message, param.values[0].shows)}
        for param in CODECS
    }
    return {api: lost for api, lost in found.items() if lost}


@every_row(
    ("codec", "data", "expected"),
    [pytest.param(*p.values, SPECIAL.get(p.id, {}), id=p.id) for p in INPUTS],
)
def test_a_transcript_loses_what_is_special_in_it_and_nothing_else(codec, data, expected):
    assert losses(codec, data) == expected


def recordings() -> Iterator[object]:
    for path in sorted(RECORDED.rglob("*.txt")):
        head, _, body = path.read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")
        if head.split()[1] == b"200":
            api = path.relative_to(RECORDED).parts[0]
            yield pytest.param(codecs.load(api), body, id=str(path.relative_to(RECORDED)))


@every_row(("codec", "data"), list(recordings()))
def test_a_recorded_answer_of_a_real_server_loses_nothing(codec, data):
    assert any(isinstance(event, ev.Started) for event in decoded(codec, [data]))
    measured = {"anthropic": {"answer.logprobs"}} if b'"logprobs":[{' in data else {}
    assert losses(codec, data) == measured
