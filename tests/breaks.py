"""One mutation of the product per requirement, and the marked tests that must notice it.

`python -m tests.requirements --break` applies each of them alone to a copy of the tree.
`file` is relative to `src/toolbridge`, or to the root of the tree for what is not in the package.
`old` occurs exactly once in its file; when it no longer does, the command fails, so that the table follows the code.
A mutation breaks what the row promises, and leaves a program that imports and runs.
"""

from typing import NamedTuple


class Break(NamedTuple):
    """A mutation that breaks the promise of `row`, and the tests that must fail then."""

    row: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


DECODE = "tests/codecs/anthropic/test_decode_request.py::"
ENCODE = "tests/codecs/anthropic/test_encode_stream.py::"
OLLAMA = "tests/codecs/ollama/"
EVENTS = ("tests/framed/test_events.py::test_an_event_says_what_it_must_and_nothing_else",)

PX = [
    Break(
        "PX-01",
        "codecs/anthropic/decode_request.py",
        "return Call(id, name, input, opaque",
        "return Call(id, name, {}, opaque",
        (f"{DECODE}test_every_block_is_read",),
    ),
    Break(
        "PX-02",
        "codecs/anthropic/decode_request.py",
        "is_error=bool(block.is_error)",
        "is_error=False",
        (f"{DECODE}test_every_form_of_a_result_is_read", f"{DECODE}test_every_block_is_read"),
    ),
    Break(
        "PX-03",
        "codecs/anthropic/decode_request.py",
        "return Thinking(thinking, read_signature(signature))",
        "return Thinking(thinking)",
        (f"{DECODE}test_every_block_is_read",),
    ),
    Break(
        "PX-04",
        "codecs/anthropic/decode_request.py",
        "return Foreign(ORIGIN, kind, fields)",
        'raise MalformedRequest("unknown", where=where)',
        (f"{DECODE}test_a_block_that_only_anthropic_understands_is_kept_whole",),
    ),
    Break(
        "PX-05",
        "codecs/anthropic/decode_request.py",
        'description=tool.description or "",',
        'description="",',
        (f"{DECODE}test_every_field_of_a_tool_is_read",),
    ),
    Break(
        "PX-06",
        "codecs/anthropic/decode_request.py",
        "return Think(THINKING_TYPES[config.type], config.budget_tokens, effort, show), rest",
        "return Think(THINKING_TYPES[config.type], None, effort, show), rest",
        (f"{DECODE}test_every_way_of_thinking_is_read",),
    ),
    Break(
        "PX-07",
        "codecs/ollama/encode_request.py",
        '"parameters": _parameters(tool, schema),',
        '"input_schema": _parameters(tool, schema),',
        (f"{OLLAMA}test_encode_request.py::test_a_tool_is_a_function_with_parameters",),
    ),
    Break(
        "PX-08",
        "codecs/ollama/decode_stream.py",
        "    if isinstance(value, str):\n        return value\n    try:",
        "    try:",
        (f"{OLLAMA}test_decode_stream.py::test_arguments_are_an_object_or_the_text_of_one",),
    ),
    Break(
        "PX-09",
        "codecs/ollama/encode_turns.py",
        '{"role": "tool", **content',
        '{"role": "user", **content',
        (f"{OLLAMA}test_encode_turns.py::test_a_round_with_a_tool_is_told_in_three_messages",),
    ),
    Break(
        "PX-11",
        "codecs/ollama/decode_stream.py",
        "said += draft.think(message.thinking)",
        "said += draft.text(message.thinking)",
        (
            f"{OLLAMA}test_decode_stream.py::test_one_line_may_hold_thought_text_and_call_in_that_order",
        ),
    ),
    Break(
        "PX-13",
        "codecs/anthropic/encode_stream.py",
        '(b"thinking_delta", b"thinking")',
        '(b"thinking_delta", b"text")',
        (f"{ENCODE}test_a_thought_is_closed_before_the_text_opens",),
    ),
    Break(
        "PX-14",
        "codecs/anthropic/encode_stream.py",
        '(b"input_json_delta", b"partial_json")',
        '(b"input_json_delta", b"json")',
        (f"{ENCODE}test_a_call_opens_empty_and_gets_its_input_in_pieces",),
    ),
    Break(
        "PX-15",
        "codecs/anthropic/encode_stream.py",
        '{"type": "tool_use", "id": id, "name": name, "input": {}}',
        '{"type": "tool_use", "id": id, "name": name}',
        (f"{ENCODE}test_a_call_opens_empty_and_gets_its_input_in_pieces",),
    ),
    Break(
        "PX-16",
        "policy/thinking.py",
        '"glm4", "qwq")',
        '"glm4")',
        ("tests/policy/test_thinking.py::test_the_prefixes_are_exactly_these_six",),
    ),
    Break(
        "PX-17",
        "policy/thinking.py",
        "return name.startswith(THINKING_PREFIXES)",
        "return name in THINKING_PREFIXES",
        ("tests/policy/test_thinking.py::test_a_model_thinks_when_its_name_begins_so",),
    ),
    Break(
        "PX-19",
        "policy/thinking.py",
        'raise ThinkingUnsupported(_explain(request.model), where="thinking")',
        "return Verdict(replace(request, think=Think()))",
        (
            "tests/server/test_messages.py::test_thinking_on_a_model_that_cannot_is_refused_to_an_api_caller",
        ),
    ),
    Break(
        "PX-21",
        "codecs/ollama/encode_request.py",
        'return self._unasked(levels=levels) if think.mode == "unset" else True',
        'return self._unasked(levels=levels) if think.mode == "unset" else None',
        (f"{OLLAMA}test_encode_request.py::test_thinking_is_asked_for_as_the_model_takes_it",),
    ),
    Break(
        "PX-23",
        "core/ids.py",
        'return f"toolu_{self.draw(16)}"',
        'return f"toolu_{self.draw(12)}"',
        ("tests/core/test_ids.py::test_call_ids_have_sixteen_digits_and_do_not_repeat",),
    ),
    Break(
        "PX-35",
        "codecs/ollama/encode_turns.py",
        'message["tool_calls"] = calls',
        "pass",
        (f"{OLLAMA}test_encode_turns.py::test_a_round_with_a_tool_is_told_in_three_messages",),
    ),
    Break(
        "PX-36",
        "codecs/ollama/encode_turns.py",
        'message["tool_call_id"] = result.call_id',
        "pass",
        (f"{OLLAMA}test_encode_turns.py::test_a_round_with_a_tool_is_told_in_three_messages",),
    ),
    Break(
        "PX-38",
        "codecs/anthropic/encode_stream.py",
        "        case Thinking():\n            return _thoughts(part)",
        "        case Thinking():\n            return []",
        (f"{ENCODE}test_a_whole_body_has_all_blocks",),
    ),
    Break(
        "PX-43",
        "codecs/anthropic/encode_stream.py",
        "        self._index += 1\n",
        "        self._index += 0\n",
        (f"{ENCODE}test_a_thought_is_closed_before_the_text_opens",),
    ),
    Break(
        "PX-45",
        "codecs/ollama/decode_stream.py",
        "for call in message.tool_calls or ():",
        "for call in () if chunk.done else message.tool_calls or ():",
        (f"{OLLAMA}test_decode_stream.py::test_calls_may_stand_in_any_line",),
    ),
    Break(
        "PX-46",
        "codecs/anthropic/encode_stream.py",
        "return [self._end(reason, message), _MESSAGE_STOP]",
        "return [self._end(reason, message)]",
        (f"{ENCODE}test_a_stream_has_its_order",),
    ),
    Break(
        "PX-47",
        "codecs/anthropic/encode_stream.py",
        "return [start, PING]",
        "return [start]",
        (f"{ENCODE}test_a_thought_is_closed_before_the_text_opens",),
    ),
    Break(
        "PX-49",
        "codecs/anthropic/encode_stream.py",
        '"model": asked.request.model or model,',
        '"model": model,',
        (
            "tests/server/test_messages.py::test_the_requested_name_is_echoed_and_the_mapped_one_is_asked",
        ),
    ),
    Break(
        "PX-50",
        "codecs/ollama/encode_request.py",
        'Outgoing("/api/chat", body',
        'Outgoing("/api/generate", body',
        (f"{OLLAMA}test_encode_request.py::test_a_plain_question_is_a_plain_body",),
    ),
]

CB = [
    Break(
        "CB-04",
        "codecs/anthropic/encode_stream.py",
        'id if id.startswith("msg_") else f"msg_{id}"',
        "id",
        (f"{ENCODE}test_the_start_has_all_that_strict_clients_want",),
    ),
    Break(
        "CB-09",
        "node/framing.py",
        'return f"{turns}<|im_start|>assistant\\n"',
        "return turns",
        (
            "tests/node/test_framing.py::test_chatml_marks_every_turn_and_ends_where_the_model_goes_on",
        ),
    ),
    Break(
        "CB-10",
        "node/framing.py",
        'return f"[Tool Result: {result.call_id}]\\n{text}"',
        'return f"[Tool Result]\\n{text}"',
        ("tests/node/test_framing.py::test_calls_and_results_are_written_out",),
    ),
    Break(
        "CB-11",
        "node/framing.py",
        "if not request.turns:",
        "if request.turns is None:",
        ("tests/node/test_framing.py::test_no_messages_are_an_error",),
    ),
    Break(
        "CB-13",
        "codecs/anthropic/encode_stream.py",
        "Usage(output=1)",
        "Usage()",
        (f"{ENCODE}test_the_start_has_all_that_strict_clients_want",),
    ),
    Break(
        "CB-14",
        "core/ids.py",
        'return f"msg_{self.draw(16)}"',
        "return self.draw(16)",
        ("tests/core/test_ids.py::test_every_kind_of_id_has_its_form",),
    ),
    Break(
        "CB-21",
        "codecs/anthropic/decode_request.py",
        "if asked.max_tokens <= 0:",
        "if asked.max_tokens < 0:",
        (f"{DECODE}test_the_path_of_a_fault_is_told",),
    ),
]

ZG = [
    Break(
        "ZG-07",
        "codecs/anthropic/decode_stream.py",
        "name=block.name, id=block.id)",
        "name=block.name)",
        (
            "tests/codecs/anthropic/test_decode_stream.py::test_a_call_is_read_from_its_start_and_its_pieces",
        ),
    ),
    Break(
        "ZG-25",
        "policy/limits.py",
        "limit = min(max_output // 3, DEFAULT_OUTPUT)",
        "limit = max_output // 3",
        (
            "tests/policy/test_limits.py::test_an_answer_gets_what_was_asked_or_a_third_and_never_more_than_fits",
        ),
    ),
]

TF = [
    Break("TF-03", "framed/events.py", "class JsonBegin(msgspec.Struct, frozen=True):", 'class JsonBegin(msgspec.Struct, frozen=True, rename={"schema": "shape"}):', EVENTS),
    Break("TF-21", "framed/limits.py", "frame: int = 65_536", "frame: int = 131_072", ("tests/framed/test_events.py::test_the_limits_are_those_of_the_specification",)),
    Break("TF-22", "framed/limits.py", "depth: int = 16", "depth: int = 64", ("tests/framed/test_events.py::test_the_limits_are_those_of_the_specification",)),
    Break("TF-23", "framed/limits.py", "arguments: int = 32_768", "arguments: int = 65_536", ("tests/framed/test_events.py::test_the_limits_are_those_of_the_specification",)),
    Break("TF-36", "runs/profiles.py", '"seed": 42', '"seed": 41', ("tests/runs/test_profiles.py::test_the_demo_profile_is_steady",)),
    Break("TF-37", "runs/profiles.py", 'DEMO_MODEL = "gpt-oss-20b"', 'DEMO_MODEL = "gpt-oss-120b"', ("tests/runs/test_profiles.py::test_the_environment_names_a_profiles_model",)),
    Break("TF-38", "runs/profiles.py", '"REPAIR_RETRIES": "repair_retries",', "", ("tests/runs/test_profiles.py::test_times_and_retries_come_from_the_environment_unless_the_request_says",)),
    Break("TF-39", "runs/profiles.py", 'DEV_MODEL = "llama-3.1-8b-instruct"', 'DEV_MODEL = "llama3"', ("tests/runs/test_profiles.py::test_the_environment_names_a_profiles_model",)),
]  # fmt: skip

CL: list[Break] = []

BREAKS = [*PX, *CB, *ZG, *TF, *CL]
