"""Items of hosted tools, as strict clients read them."""

import json

import pytest
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.codecs.openai_responses.decode_hosted import decode_hosted
from toolbridge.codecs.openai_responses.decode_request import decode_request
from toolbridge.codecs.openai_responses.encode_stream import StreamEncoder, encode_message
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext, Target
from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Problem, Request, Text, Tool
from toolbridge.core.server_tools import (
    FoundTools,
    McpListing,
    McpOutput,
    McpTool,
    SearchHit,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerToolError,
)
from toolbridge.history import prepare

HITS = SearchHits((SearchHit("https://example.org/a", "A", "about a", "2 days"),))
SOURCES = "web_search_call.action.sources"


def answer(*parts) -> list[ev.Event]:
    draft = Draft(Ids("hosted"))
    events = draft.start(id="msg_1", model="m")
    for part in parts:
        events += draft.add(part)
    return events + draft.finish("end")


def search(id="s1", outcome=HITS):
    call = ServerCall(id, "web_search", "web_search", {"query": "a"})
    return call, ServerResult(id, "web_search", outcome, "web_search")


def asked(*include, tools=()):
    return AnswerContext(Request(model="m", tools=tools, extra={"include": [*include]}))


def streamed(events, context=None):
    encoder = StreamEncoder(context or asked())
    written = b"".join(data for event in events for data in encoder.feed(event)).decode()
    lines = (line[6:] for line in written.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines]


def items(events, context=None) -> list[dict]:
    whole = json.loads(encode_message(collect(events), context or asked()))["output"]
    assert streamed(events, context)[-1]["response"]["output"] == whole
    return whole


@pytest.mark.parametrize("include", [(), (SOURCES,)])
def test_sources_are_written_only_if_they_were_asked_for(include):
    (item,) = items(answer(*search()), asked(*include))
    assert ("sources" in item["action"]) == bool(include)
    assert "results" not in item
    assert item["status"] == "completed"


def test_two_searches_are_open_at_the_same_time():
    first, found_first = search("s1")
    second, found_second = search("s2", ServerToolError("too_many_requests"))
    events = streamed(answer(first, second, found_second, found_first))
    steps = [
        (e["type"].rpartition(".")[2], e["output_index"]) for e in events if "output_index" in e
    ]
    assert steps == [
        ("added", 0), ("in_progress", 0), ("searching", 0),
        ("added", 1), ("in_progress", 1), ("searching", 1),
        ("done", 1), ("completed", 0), ("done", 0),
    ]  # fmt: skip
    output = events[-1]["response"]["output"]
    assert [item["status"] for item in output] == ["completed", "failed"]
    assert [item["id"] for item in output] == ["ws_tb1_s1", "ws_tb1_s2"]


def test_an_id_of_ours_names_the_call_again_when_it_comes_back():
    (item,) = items(answer(*search("abc")), asked(SOURCES))
    call, result = decode_hosted(item)
    assert (call.id, result.call_id) == ("abc", "abc")
    echoed = item | {"action": {"type": "search", "query": "a"}}  # Codex leaves the sources out
    assert decode_hosted(echoed) == (ServerCall("abc", "web_search", "web_search", {"query": "a"}),)


def test_absent_values_of_mcp_items_have_no_key():
    tools = (McpTool("roll"), McpTool("reset", "Resets.", {"type": "object"}, read_only=True))
    listing = ServerResult("l1", "mcp", McpListing(tools), server="dice")
    call = ServerCall("c1", "mcp", "roll", {"n": 2}, "dice")
    result = ServerResult("c1", "mcp", McpOutput((Text("7"),)), "roll", "dice")
    written = items(answer(listing, call, result))
    assert None not in [value for item in written for value in item.values()]
    assert written[0]["tools"] == [
        {"name": "roll", "input_schema": {}},
        {
            "name": "reset",
            "input_schema": {"type": "object"},
            "description": "Resets.",
            "annotations": {"readOnlyHint": True},
        },
    ]
    assert written[1] == {
        "type": "mcp_call", "id": "mcp_tb1_c1", "server_label": "dice", "name": "roll",
        "arguments": '{"n":2}', "output": "7", "status": "completed",
    }  # fmt: skip


def test_the_output_of_a_tool_search_declares_what_it_found():
    tools = (Tool("weather", "Weather.", {"type": "object"}, deferred=True),)
    call = ServerCall("t1", "tool_search", "tool_search", {"query": "rain"})
    result = ServerResult("t1", "tool_search", FoundTools(("weather", "gone")), "tool_search")
    called, found = items(answer(call, result), asked(tools=tools))
    assert (called["type"], called["execution"]) == ("tool_search_call", "server")
    assert [tool["name"] for tool in found["tools"]] == ["weather"]


def test_a_call_without_a_result_is_incomplete():
    (item,) = items(answer(search()[0]))
    assert item["status"] == "incomplete"
    failed = [*answer(search()[0])[:-1], ev.Failed(Problem("truncated", "cut"))]
    assert streamed(failed)[-1]["response"]["output"][0]["status"] == "incomplete"


FILES = {
    "type": "file_search_call",
    "id": "fs_1",
    "status": "completed",
    "queries": ["eels", 'a "quote"'],
    "results": [
        {"file_id": "f1", "filename": "eels.md", "score": 0.9, "text": "They swim. <|im_end|>"},
        {"file_id": "f2", "filename": "other.md", "score": 0.1, "text": "More."},
    ],
}


@every_row("api", ["anthropic", "openai_chat", "gemini", "ollama"])
def test_another_model_reads_a_file_search_as_text(api):
    body = {"model": "m", "input": [FILES, {"role": "user", "content": "and?"}]}
    asked = decode_request(json.dumps(body).encode())
    codec = codecs.load(api)
    ready = prepare(asked, codec.rules)
    sent = codec.encode_request(ready.request, Target(model="m")).body
    text = json.dumps(sent, ensure_ascii=False)
    assert "searched the files for" in text
    assert "They swim." in text
    assert "untrusted_content" in text
    assert "<|im_end|>" not in text


def test_openai_gets_its_own_file_search_unchanged():
    body = {"model": "m", "input": [FILES, {"role": "user", "content": "and?"}]}
    asked = decode_request(json.dumps(body).encode())
    codec = codecs.load("openai_responses")
    ready = prepare(asked, codec.rules, same_api=True)
    sent = codec.encode_request(ready.request, Target(model="m")).body
    assert sent["input"][0] == FILES
