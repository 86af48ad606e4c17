"""Model servers of every API that give the same answer: a thought, a text, and two calls at once.

Each is written by hand in the words of its API, so that no encoder of ours vouches for a decoder.
"""

import json

from tests.peers import Heard, Line

THOUGHT = "Two cities, two calls."
TEXT = "I look it up."
CALLS = [("get_weather", {"city": "Berlin"}), ("get_weather", {"city": "Rome"})]
INPUT, CACHED, OUTPUT = 16, 5, 33


def _sse(*events: dict) -> bytes:
    named = [(f"event: {e['type']}\n" if "type" in e else "", json.dumps(e)) for e in events]
    return "".join(f"{name}data: {data}\n\n" for name, data in named).encode()


def _anthropic(*, stream: bool) -> bytes:
    blocks: list[dict] = [
        {"type": "thinking", "thinking": THOUGHT, "signature": "c2VhbA=="},
        {"type": "text", "text": TEXT},
        *(
            {"type": "tool_use", "id": f"toolu_0{n}", "name": name, "input": args}
            for n, (name, args) in enumerate(CALLS)
        ),
    ]
    usage = {"input_tokens": 11, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0}
    head = {"id": "msg_up", "type": "message", "role": "assistant", "model": "m"}
    if not stream:
        end = {"stop_reason": "tool_use", "stop_sequence": None}
        return json.dumps(
            {**head, **end, "content": blocks, "usage": usage | {"output_tokens": OUTPUT}}
        ).encode()
    events: list[dict] = [
        {"type": "message_start",
         "message": {**head, "content": [], "stop_reason": None, "stop_sequence": None,
                     "usage": usage | {"output_tokens": 1}}},
    ]  # fmt: skip
    for index, block in enumerate(blocks):
        empty = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""},
                 "tool_use": {"input": {}}}[block["type"]]  # fmt: skip
        events.append(
            {"type": "content_block_start", "index": index, "content_block": block | empty}
        )
        deltas = {
            "thinking": lambda b: [
                {"type": "thinking_delta", "thinking": b["thinking"]},
                {"type": "signature_delta", "signature": b["signature"]},
            ],
            "text": lambda b: [{"type": "text_delta", "text": b["text"]}],
            "tool_use": lambda b: [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in _halves(json.dumps(b["input"]))
            ],
        }[block["type"]](block)
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events += [
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
         "usage": {"output_tokens": OUTPUT}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return _sse(*events)


def _openai_chat(*, stream: bool) -> bytes:
    usage = {
        "prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
        "prompt_tokens_details": {"cached_tokens": CACHED},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }  # fmt: skip
    calls = [
        {"id": f"call_{n}", "type": "function",
         "function": {"name": name, "arguments": json.dumps(args)}}
        for n, (name, args) in enumerate(CALLS)
    ]  # fmt: skip
    head = {"id": "chatcmpl-up", "created": 1, "model": "m"}
    if not stream:
        message = {"role": "assistant", "content": TEXT, "reasoning_content": THOUGHT,
                   "tool_calls": calls}  # fmt: skip
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return json.dumps(
            {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        ).encode()
    deltas: list[dict] = [
        {"role": "assistant", "content": ""},
        {"reasoning_content": THOUGHT},
        {"content": TEXT},
    ]
    for index, call in enumerate(calls):
        first, last = _halves(call["function"]["arguments"])
        begun = call | {"index": index, "function": call["function"] | {"arguments": first}}
        deltas.append({"tool_calls": [begun]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": last}}]})
    chunk = {**head, "object": "chat.completion.chunk"}
    chunks = [
        {**chunk, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas
    ]
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    chunks += [{**chunk, "choices": [end]}, {**chunk, "choices": [], "usage": usage}]
    return _sse(*chunks) + b"data: [DONE]\n\n"


def _openai_responses(*, stream: bool) -> bytes:
    usage = {
        "input_tokens": INPUT, "output_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
        "input_tokens_details": {"cached_tokens": CACHED},
        "output_tokens_details": {"reasoning_tokens": 3},
    }  # fmt: skip
    items: list[dict] = [
        {"type": "reasoning", "id": "rs_1",
         "summary": [{"type": "summary_text", "text": THOUGHT}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": TEXT, "annotations": []}]},
        *(
            {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": name,
             "arguments": json.dumps(args), "status": "completed"}
            for n, (name, args) in enumerate(CALLS)
        ),
    ]  # fmt: skip
    response = {"id": "resp_up", "object": "response", "created_at": 1, "model": "m",
                "status": "completed", "output": items, "usage": usage}  # fmt: skip
    if not stream:
        return json.dumps(response).encode()
    begun = response | {"status": "in_progress", "output": [], "usage": None}
    events: list[dict] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(items):
        where = {"item_id": item["id"], "output_index": index}
        blank = {"reasoning": {"summary": []}, "message": {"content": [], "status": "in_progress"},
                 "function_call": {"arguments": "", "status": "in_progress"}}  # fmt: skip
        events.append({"type": "response.output_item.added", "output_index": index,
                       "item": item | blank[item["type"]]})  # fmt: skip
        if item["type"] == "reasoning":
            part = {**where, "summary_index": 0}
            name = "response.reasoning_summary"
            events += [
                {"type": f"{name}_part.added", **part,
                 "part": {"type": "summary_text", "text": ""}},
                {"type": f"{name}_text.delta", **part, "delta": THOUGHT},
                {"type": f"{name}_text.done", **part, "text": THOUGHT},
                {"type": f"{name}_part.done", **part, "part": item["summary"][0]},
            ]  # fmt: skip
        elif item["type"] == "message":
            part = {**where, "content_index": 0}
            blank_part = {"type": "output_text", "text": "", "annotations": []}
            events += [
                {"type": "response.content_part.added", **part, "part": blank_part},
                {"type": "response.output_text.delta", **part, "delta": TEXT},
                {"type": "response.output_text.done", **part, "text": TEXT},
                {"type": "response.content_part.done", **part, "part": item["content"][0]},
            ]
        else:
            name = "response.function_call_arguments"
            events += [
                {"type": f"{name}.delta", **where, "delta": piece}
                for piece in _halves(item["arguments"])
            ]
            events.append({"type": f"{name}.done", **where, "arguments": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response})
    return _sse(*({**e, "sequence_number": n} for n, e in enumerate(events)))


def _gemini(*, stream: bool) -> bytes:
    usage = {
        "promptTokenCount": INPUT, "cachedContentTokenCount": CACHED,
        "candidatesTokenCount": 30, "thoughtsTokenCount": 3, "totalTokenCount": INPUT + OUTPUT,
    }  # fmt: skip
    parts: list[dict] = [
        {"text": THOUGHT, "thought": True},
        {"text": TEXT},
        *({"functionCall": {"name": name, "args": args}} for name, args in CALLS),
    ]
    head = {"modelVersion": "m", "responseId": "up"}
    if not stream:
        candidate = {"index": 0, "content": {"role": "model", "parts": parts},
                     "finishReason": "STOP"}  # fmt: skip
        return json.dumps({**head, "candidates": [candidate], "usageMetadata": usage}).encode()
    chunks: list[dict] = [
        {**head, "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}
        for part in parts
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = usage
    return _sse(*chunks)


def _ollama(*, stream: bool) -> bytes:
    calls = [{"function": {"name": name, "arguments": args}} for name, args in CALLS]
    head = {"model": "m", "created_at": "2026-11-15T18:52:14.5Z"}
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": INPUT, "eval_count": OUTPUT,
           "total_duration": 5, "load_duration": 1, "prompt_eval_duration": 2,
           "eval_duration": 2}  # fmt: skip
    message = {"role": "assistant", "content": TEXT, "thinking": THOUGHT, "tool_calls": calls}
    if not stream:
        return json.dumps({**head, "message": message, **end}).encode()
    said: list[dict] = [
        {"content": "", "thinking": THOUGHT},
        {"content": TEXT},
        *({"content": "", "tool_calls": [call]} for call in calls),
    ]
    lines = [{**head, "message": {"role": "assistant", **m}, "done": False} for m in said]
    lines.append({**head, "message": {"role": "assistant", "content": ""}, **end})
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


ANSWERS = {
    "anthropic": _anthropic,
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "gemini": _gemini,
    "ollama": _ollama,
}
APIS = list(ANSWERS)


def wants_stream(api: str, heard: Heard) -> bool:
    if api == "gemini":
        return "streamGenerateContent" in heard.path
    return bool(heard.json.get("stream", api == "ollama"))


def kind(api: str, *, stream: bool) -> str:
    if not stream:
        return "application/json"
    return "application/x-ndjson" if api == "ollama" else "text/event-stream"


def answering(api: str):
    """Return a server's answer: the thought, the text and the calls."""

    async def answer(heard: Heard, line: Line) -> None:
        stream = wants_stream(api, heard)
        await line.head(200, kind(api, stream=stream))
        body = ANSWERS[api](stream=stream)
        for start in range(0, len(body), 700):
            await line.send(body[start : start + 700])
        await line.end()

    return answer


def dying(api: str):
    """Return a server's answer that breaks off behind its text."""

    async def answer(_: Heard, line: Line) -> None:
        body = ANSWERS[api](stream=True)
        await line.head(200, kind(api, stream=True))
        await line.send(body[: body.index(TEXT.encode()) + 300])
        line.cut()

    return answer


_ERRORS = {
    "anthropic": lambda status, text: {
        "type": "error", "error": {"type": _ANTHROPIC.get(status, "api_error"), "message": text},
    },
    "openai_chat": lambda _, text: {"error": {"message": text, "type": "x", "code": None}},
    "openai_responses": lambda _, text: {"error": {"message": text, "type": "x"}},
    "gemini": lambda status, text: {"error": {"code": status, "message": text, "status": "X"}},
    "ollama": lambda _, text: {"error": text},
}  # fmt: skip
_ANTHROPIC = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error",
              529: "overloaded_error"}  # fmt: skip


def refusing(api: str, status: int, text: str):
    """Return a server's answer that is an error of its API."""

    async def answer(_: Heard, line: Line) -> None:
        await line.head(status, "application/json", retry_after="7")
        await line.send(json.dumps(_ERRORS[api](status, text)))
        await line.end()

    return answer
