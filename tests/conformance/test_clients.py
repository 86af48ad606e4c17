"""Each rule of each reader can fail: a good stream has no fault, and each broken one has the named."""

import json

import pytest
from tests.tables import every_row

from toolbridge.conformance import clients


def sse(*frames, named=True):
    """Return frames as events; a text is sent as it is."""
    out = ""
    for frame in frames:
        if isinstance(frame, str):
            out += frame
            continue
        out += f"event: {frame['type']}\n" if named else ""
        out += f"data: {json.dumps(frame)}\n\n"
    return out.encode()


def read(api, body):
    return clients.load(api).read_stream(body)


# ── Anthropic ────────────────────────────────────────────────────────────────

MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
    "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 1},
}  # fmt: skip
START = {"type": "message_start", "message": MESSAGE}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
HI = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
CLOSE = {"type": "content_block_stop", "index": 0}
USE = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
CALL = {"type": "content_block_start", "index": 0, "content_block": USE}
ARGS = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'},
}
HALF = {**ARGS, "delta": {"type": "input_json_delta", "partial_json": '{"a":'}}
PING = {"type": "ping"}


def told(reason="end_turn"):
    delta = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}}


STOP = {"type": "message_stop"}
ERROR = {"type": "error", "error": {"type": "api_error", "message": "boom"}}


def test_a_good_anthropic_stream_is_read_whole():
    seen = read("anthropic", sse(PING, START, TEXT, HI, CLOSE, told(), STOP))
    assert seen.faults == []
    assert (seen.text, seen.stop, seen.input, seen.output) == ("Hi", "end_turn", 3, 2)
    assert (seen.terminal, seen.order, seen.keep_alives) == ("finished", ["text"], 1)
    assert seen.early_input == 3


def test_a_good_anthropic_call_is_read_whole():
    seen = read("anthropic", sse(START, CALL, ARGS, CLOSE, told("tool_use"), STOP))
    assert seen.faults == []
    assert [(c.name, c.arguments, c.closed) for c in seen.calls] == [("read", {"a": 1}, True)]


def test_an_anthropic_error_is_terminal():
    seen = read("anthropic", sse(START, CALL, ARGS, ERROR))
    assert (seen.faults, seen.terminal, seen.error) == ([], "error", "api_error: boom")
    assert not seen.calls[0].closed


ANTHROPIC = {
    "comes before message_start": (TEXT, HI),
    "message_start comes twice": (START, START),
    "message lacks usage": (
        {"type": "message_start", "message": {k: v for k, v in MESSAGE.items() if k != "usage"}},
    ),
    "is not empty": ({"type": "message_start", "message": {**MESSAGE, "content": [1]}},),
    "block starts while a text": (START, TEXT, TEXT),
    "block 0 is numbered 1": (START, {**TEXT, "index": 1}),
    "not open": (START, HI),
    "ends, which is not open": (START, CLOSE),
    "comes in a text block": (START, TEXT, ARGS),
    "starts with input": (START, {**CALL, "content_block": {**USE, "input": {"a": 1}}}),
    "message_delta comes while a text": (START, TEXT, told()),
    "message_delta comes twice": (START, told(), told()),
    "lacks usage.output_tokens": (START, {**told(), "usage": {}}),
    "message_stop comes before": (START, STOP),
    "comes after the end": (START, told(), STOP, PING),
    "after the end": (START, ERROR, told()),
    "no event is called": (START, {"type": "sparkle"}),
    "no stop reason is called": (START, told("banana"), STOP),
    "tool_use with 0 calls": (START, told("tool_use"), STOP),
    "end_turn with 1 calls": (START, CALL, ARGS, CLOSE, told(), STOP),
    "the arguments of read are not a JSON": (START, CALL, HALF, CLOSE, told("tool_use"), STOP),
    "have the id ''": (START, {**CALL, "content_block": {**USE, "id": ""}}),
    "a call has no name": (START, {**CALL, "content_block": {**USE, "name": ""}}),
    "no type and message": (START, {"type": "error", "error": {}}),
    "an event is not JSON": (START, "event: ping\ndata: {\n\n"),
    "an event is not a JSON object": (START, "event: ping\ndata: 3\n\n"),
    "the event is ''": ('data: {"type":"ping"}\n\n',),
    "a thinking block lacks": (START, {**TEXT, "content_block": {"type": "thinking"}}),
}


@every_row(("fault", "frames"), ANTHROPIC.items())
def test_a_broken_anthropic_stream_is_faulted(fault, frames):
    assert any(fault in told for told in read("anthropic", sse(*frames)).faults)


def test_a_call_that_the_limit_cut_may_be_half():
    seen = read("anthropic", sse(START, CALL, HALF, CLOSE, told("max_tokens"), STOP))
    assert seen.faults == []
    assert seen.calls[0].arguments is None


def test_two_calls_with_one_id_are_a_fault():
    second = {**CALL, "index": 1}
    frames = (START, CALL, ARGS, CLOSE, second, {**CLOSE, "index": 1}, told("tool_use"), STOP)
    assert read("anthropic", sse(*frames)).faults == ["2 calls have the id 't1'"]


# ── Chat Completions ─────────────────────────────────────────────────────────

ENVELOPE = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def chunk(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**ENVELOPE, "choices": [choice], **more}


def calls(*pieces):
    return chunk({"tool_calls": list(pieces)})


ROLE = chunk({"role": "assistant", "content": ""})
FIRST = {"index": 0, "id": "a", "type": "function", "function": {"name": "read", "arguments": "{"}}
REST = {"index": 0, "function": {"arguments": "}"}}
DONE = "data: [DONE]\n\n"
USAGE = {**ENVELOPE, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}


def chat(*frames):
    return read("openai_chat", sse(*frames, named=False))


def test_a_good_chat_stream_is_read_whole():
    seen = chat(chunk({}), ROLE, chunk({"content": "Hi"}), calls(FIRST), calls(REST),
                chunk({}, "tool_calls"), USAGE, DONE)  # fmt: skip
    assert seen.faults == []
    assert (seen.text, seen.stop, seen.input, seen.output) == ("Hi", "tool_calls", 3, 2)
    assert (seen.terminal, seen.calls[0].arguments, seen.keep_alives) == ("finished", {}, 2)


def test_a_chat_stream_without_done_is_not_finished():
    assert chat(ROLE, chunk({}, "stop")).terminal == "none"


def test_a_chat_error_is_terminal():
    seen = chat(ROLE, {"error": {"message": "boom", "type": "x", "code": None}})
    assert (seen.terminal, seen.error, seen.faults) == ("error", "x None: boom", [])


CHAT = {
    "content comes before the role": (chunk({"content": "Hi"}),),
    "the envelope changes": (ROLE, {**chunk({"content": "Hi"}), "id": "c2"}),
    "calls itself": ({**ROLE, "object": "chunk"},),
    "a chunk lacks model": ({k: v for k, v in ROLE.items() if k != "model"},),
    "first piece of a call": (ROLE, calls(REST)),
    "has the index 1": (ROLE, calls({**FIRST, "index": 1})),
    "is named again": (ROLE, calls(FIRST), calls({**FIRST, "id": "b"})),
    "content comes after the finish_reason": (ROLE, chunk({}, "stop"), chunk({"content": "x"})),
    "without a finish_reason": (ROLE, DONE),
    "after the end": (ROLE, chunk({}, "stop"), DONE, DONE),
    "comes after the end": ({"error": {"message": "x"}}, DONE),
    "no finish_reason is called": (ROLE, chunk({}, "banana"), DONE),
    "tool_calls with 0 calls": (ROLE, chunk({}, "tool_calls")),
    "stop with 1 calls": (ROLE, calls(FIRST), calls(REST), chunk({}, "stop")),
    "are not a JSON object": (ROLE, calls(FIRST), chunk({}, "tool_calls")),
    "no message": ({"error": {}},),
    "have no event name": ("event: x\ndata: {}\n\n",),
    "an event is not JSON": ("data: {\n\n",),
}


@every_row(("fault", "frames"), CHAT.items())
def test_a_broken_chat_stream_is_faulted(fault, frames):
    assert any(fault in told for told in chat(*frames).faults)


# ── Responses ────────────────────────────────────────────────────────────────


def response(**more):
    return {"id": "r", "object": "response", "created_at": 1, "status": "in_progress", "model": "m",
            "output": [], **more}  # fmt: skip


def numbered(*frames):
    out = [f if isinstance(f, str) else {"sequence_number": n, **f} for n, f in enumerate(frames)]
    return read("openai_responses", sse(*out))


CREATED = {"type": "response.created", "response": response()}
ITEM = {"id": "m1", "type": "message", "role": "assistant", "content": []}
ADDED = {"type": "response.output_item.added", "output_index": 0, "item": ITEM}
DELTA = {"type": "response.output_text.delta", "output_index": 0, "item_id": "m1", "delta": "Hi"}
WHOLE = {**ITEM, "content": [{"type": "output_text", "text": "Hi"}]}
ITEM_DONE = {"type": "response.output_item.done", "output_index": 0, "item": WHOLE}
COUNTS = {"input_tokens": 3, "output_tokens": 2}


def completed(*output, **more):
    body = response(status="completed", output=list(output), usage=COUNTS, **more)
    return {"type": "response.completed", "response": body}


FUNCTION = {"id": "f1", "type": "function_call", "call_id": "c1", "name": "read", "arguments": ""}
F_ADDED = {"type": "response.output_item.added", "output_index": 0, "item": FUNCTION}
F_DELTA = {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "f1",
           "delta": "{}"}  # fmt: skip
F_ARGS = {"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "f1",
          "arguments": "{}"}  # fmt: skip
F_WHOLE = {**FUNCTION, "arguments": "{}"}
F_DONE = {"type": "response.output_item.done", "output_index": 0, "item": F_WHOLE}


def test_a_good_responses_stream_is_read_whole():
    seen = numbered(CREATED, {"type": "response.in_progress"}, ADDED, DELTA, ITEM_DONE,
                    completed(WHOLE))  # fmt: skip
    assert seen.faults == []
    assert (seen.text, seen.stop, seen.input, seen.output) == ("Hi", "completed", 3, 2)
    assert (seen.terminal, seen.order, seen.keep_alives) == ("finished", ["text"], 1)


def test_a_good_responses_call_is_read_whole():
    seen = numbered(CREATED, F_ADDED, F_DELTA, F_ARGS, F_DONE, completed(F_WHOLE))
    assert seen.faults == []
    assert [(c.name, c.id, c.arguments, c.closed) for c in seen.calls] == [("read", "c1", {}, True)]


@pytest.mark.parametrize(
    "end",
    [
        {"type": "error", "code": "x", "message": "boom"},
        {"type": "response.failed",
         "response": response(usage=None, error={"code": "x", "message": "boom"})},
    ],
)  # fmt: skip
def test_a_responses_error_is_terminal(end):
    seen = numbered(CREATED, end)
    assert (seen.terminal, seen.faults) == ("error", [])
    assert "boom" in seen.error


RESPONSES = {
    "event 1 is numbered 7": (CREATED, {**ADDED, "sequence_number": 7}),
    "comes before response.created": (ADDED,),
    "response.created comes twice": (CREATED, CREATED),
    "the response lacks output": (
        {"type": "response.created",
         "response": {k: v for k, v in response().items() if k != "output"}},
    ),
    "item 0 has the index 1": (CREATED, {**ADDED, "output_index": 1}),
    "an item has the id": (CREATED, ADDED, {**ADDED, "output_index": 1}),
    "is for an item that is not open": (CREATED, DELTA),
    "not open": (CREATED, ADDED, {**DELTA, "item_id": "other"}),
    "comes in an item of type": (CREATED, ADDED, {**F_DELTA, "item_id": "m1"}),
    "are not those that were written": (CREATED, F_ADDED, F_DELTA, {**F_ARGS, "arguments": "{ }"}),
    "an item is done that is not open": (CREATED, ITEM_DONE),
    "is not the one that was written": (CREATED, ADDED, ITEM_DONE),
    "while an item is open": (CREATED, ADDED, completed(WHOLE)),
    "does not repeat the items": (CREATED, ADDED, DELTA, ITEM_DONE, completed()),
    "lacks usage": (CREATED, {"type": "response.completed", "response": response()}),
    "does not end with": (CREATED, completed(incomplete_details={"reason": "banana"})),
    "after the end": (CREATED, completed(), CREATED),
    "has no message": (CREATED, {"type": "error"}),
}  # fmt: skip


@every_row(("fault", "frames"), RESPONSES.items())
def test_a_broken_responses_stream_is_faulted(fault, frames):
    assert any(fault in told for told in numbered(*frames).faults)


# ── Gemini ───────────────────────────────────────────────────────────────────


def frame(*parts, finish=None, role="model", **more):
    candidate = {"content": {"role": role, "parts": list(parts)}, "index": 0}
    candidate |= {"finishReason": finish} if finish else {}
    return {"candidates": [candidate], **more}


def gemini(*frames):
    return read("gemini", sse(*frames, named=False))


METADATA = {"promptTokenCount": 3, "candidatesTokenCount": 1, "thoughtsTokenCount": 1}
F_CALL = {"functionCall": {"name": "read", "args": {"a": 1}}}


def test_a_good_gemini_stream_is_read_whole():
    seen = gemini(frame({"text": ""}), frame({"text": "Hm", "thought": True}, {"text": "Hi"}),
                  frame(F_CALL, finish="STOP", usageMetadata=METADATA))  # fmt: skip
    assert seen.faults == []
    assert (seen.text, seen.thinking, seen.stop) == ("Hi", "Hm", "STOP")
    assert (seen.input, seen.output, seen.keep_alives) == (3, 2, 1)
    assert seen.order == ["thinking", "text", "call"]
    assert seen.calls[0].arguments == {"a": 1}


def test_a_blocked_prompt_is_an_end():
    seen = gemini({"promptFeedback": {"blockReason": "SAFETY"}})
    assert (seen.terminal, seen.stop, seen.faults) == ("finished", "SAFETY", [])


def test_a_gemini_error_is_terminal():
    seen = gemini({"error": {"code": 500, "status": "INTERNAL", "message": "boom"}})
    assert (seen.terminal, seen.error, seen.faults) == ("error", "INTERNAL: boom", [])


GEMINI = {
    "no event names": ("event: x\ndata: {}\n\n",),
    "and no [DONE]": (frame({"text": "Hi"}, finish="STOP"), DONE),
    "a comment": (": hello\n\n", frame({"text": "Hi"})),
    "no candidates": ({"candidates": []},),
    "role is not model": (frame({"text": "Hi"}, role="assistant"),),
    "it must hold one thing": (frame({"thought": True}),),
    "a functionCall lacks args": (frame({"functionCall": {"name": "read"}}),),
    "args of a call are no object": (frame({"functionCall": {"name": "read", "args": "{}"}}),),
    "after the end": (frame({"text": "Hi"}, finish="STOP"), frame({"text": "x"})),
    "does not end with": (frame({"text": "Hi"}, finish="BANANA"),),
    "no code, status and message": ({"error": {}},),
    "an event is not JSON": ("data: {\n\n",),
}


@every_row(("fault", "frames"), GEMINI.items())
def test_a_broken_gemini_stream_is_faulted(fault, frames):
    assert any(fault in told for told in gemini(*frames).faults)


# ── Ollama ───────────────────────────────────────────────────────────────────


def line(content="", *, done=False, message=None, **more):
    said = {"role": "assistant", "content": content, **(message or {})}
    return {"model": "m", "created_at": "t", "message": said, "done": done, **more}


def ollama(*lines):
    body = "".join(entry if isinstance(entry, str) else json.dumps(entry) + "\n" for entry in lines)
    return read("ollama", body.encode())


LAST = line(done=True, done_reason="stop", prompt_eval_count=3, eval_count=2, eval_duration=5)
O_CALL = {"function": {"name": "read", "arguments": {"a": 1}}}


def test_a_good_ollama_stream_is_read_whole():
    seen = ollama(line(), line(message={"thinking": "Hm"}), line("Hi"),
                  line(message={"tool_calls": [O_CALL]}), LAST)  # fmt: skip
    assert seen.faults == []
    assert (seen.text, seen.thinking, seen.stop) == ("Hi", "Hm", "stop")
    assert (seen.input, seen.output, seen.keep_alives) == (3, 2, 1)
    assert seen.order == ["thinking", "text", "call"]


def test_an_ollama_error_is_terminal():
    seen = ollama(line("Hi"), {"error": "boom"})
    assert (seen.terminal, seen.error, seen.faults) == ("error", "boom", [])


OLLAMA = {
    "an empty line": (line("Hi"), "\n"),
    "an event is not JSON": ("{\n",),
    "a line lacks done": ({k: v for k, v in line().items() if k != "done"},),
    "lacks its role": (line(message={"role": "tool"}),),
    "its content is no text": (line(message={"content": None}),),
    "are no object": (line(message={"tool_calls": [{"function": {"arguments": "{}"}}]}),),
    "after the end": (LAST, line()),
    "no done_reason is called": ({**LAST, "done_reason": "banana"},),
    "eval_duration is zero": ({**LAST, "eval_duration": 0},),
    "the error is no text": ({"error": {"message": "x"}},),
}


@every_row(("fault", "lines"), OLLAMA.items())
def test_a_broken_ollama_stream_is_faulted(fault, lines):
    assert any(fault in told for told in ollama(*lines).faults)


# ── whole answers and errors ─────────────────────────────────────────────────

WHOLES = {
    "anthropic": {**MESSAGE, "content": [{"type": "thinking", "thinking": "Hm"},
                  {"type": "text", "text": "Hi"}, {**USE, "input": {"a": 1}}],
                  "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 2}},
    "openai_chat": {**ENVELOPE, "choices": [{"finish_reason": "tool_calls", "message": {
                    "content": "Hi", "reasoning_content": "Hm", "tool_calls": [{"id": "a",
                    "function": {"name": "read", "arguments": '{"a":1}'}}]}}],
                    "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    "openai_responses": response(status="completed", usage=COUNTS, output=[
                    {"type": "reasoning", "summary": [{"text": "Hm"}]}, WHOLE,
                    {**FUNCTION, "arguments": '{"a":1}'}]),
    "gemini": frame({"text": "Hm", "thought": True}, {"text": "Hi"}, F_CALL, finish="STOP",
                    usageMetadata=METADATA),
    "ollama": {**LAST, "message": {"role": "assistant", "content": "Hi", "thinking": "Hm",
               "tool_calls": [O_CALL]}},
}  # fmt: skip


@every_row("api", WHOLES)
def test_a_whole_answer_is_read(api):
    seen = clients.load(api).read_whole(WHOLES[api])
    assert seen.faults == []
    assert (seen.text, seen.thinking, seen.terminal) == ("Hi", "Hm", "finished")
    assert (seen.input, seen.output) == (3, 2)
    assert [(c.name, c.arguments) for c in seen.calls] == [("read", {"a": 1})]


@every_row("api", WHOLES)
def test_an_empty_object_is_no_whole_answer(api):
    assert clients.load(api).read_whole({}).faults


@every_row("api", WHOLES)
def test_an_error_of_another_shape_is_not_in_the_envelope(api):
    assert clients.load(api).read_error({"detail": "nope"}) == ""
