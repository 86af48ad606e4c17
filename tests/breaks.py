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


BREAKS = [
    Break(
        "PX-01",
        "codecs/anthropic/decode_request.py",
        "return Call(id, name, input, opaque",
        "return Call(id, name, {}, opaque",
        ("tests/codecs/anthropic/test_decode_request.py::test_every_block_is_read",),
    ),
    Break(
        "PX-02",
        "codecs/anthropic/decode_request.py",
        "is_error=bool(block.is_error)",
        "is_error=False",
        (
            "tests/codecs/anthropic/test_decode_request.py::test_every_form_of_a_result_is_read",
            "tests/codecs/anthropic/test_decode_request.py::test_every_block_is_read",
        ),
    ),
    Break(
        "PX-03",
        "codecs/anthropic/decode_request.py",
        "return Thinking(thinking, read_signature(signature))",
        "return Thinking(thinking)",
        ("tests/codecs/anthropic/test_decode_request.py::test_every_block_is_read",),
    ),
    Break(
        "PX-04",
        "codecs/anthropic/decode_request.py",
        "return Foreign(ORIGIN, kind, fields)",
        'raise MalformedRequest("unknown", where=where)',
        (
            "tests/codecs/anthropic/test_decode_request.py::test_a_block_that_only_anthropic_understands_is_kept_whole",
        ),
    ),
    Break(
        "PX-05",
        "codecs/anthropic/decode_request.py",
        'description=tool.description or "",',
        'description="",',
        ("tests/codecs/anthropic/test_decode_request.py::test_every_field_of_a_tool_is_read",),
    ),
    Break(
        "PX-06",
        "codecs/anthropic/decode_request.py",
        "return Think(THINKING_TYPES[config.type], config.budget_tokens, effort, show), rest",
        "return Think(THINKING_TYPES[config.type], None, effort, show), rest",
        ("tests/codecs/anthropic/test_decode_request.py::test_every_way_of_thinking_is_read",),
    ),
    Break(
        "PX-07",
        "codecs/ollama/encode_request.py",
        '"parameters": _parameters(tool, schema),',
        '"input_schema": _parameters(tool, schema),',
        ("tests/codecs/ollama/test_encode_request.py::test_a_tool_is_a_function_with_parameters",),
    ),
    Break(
        "PX-08",
        "codecs/ollama/decode_stream.py",
        "    if isinstance(value, str):\n        return value\n    try:",
        "    try:",
        (
            "tests/codecs/ollama/test_decode_stream.py::test_arguments_are_an_object_or_the_text_of_one",
        ),
    ),
    Break(
        "PX-09",
        "codecs/ollama/encode_turns.py",
        '{"role": "tool", **content',
        '{"role": "user", **content',
        (
            "tests/codecs/ollama/test_encode_turns.py::test_a_round_with_a_tool_is_told_in_three_messages",
        ),
    ),
    Break(
        "PX-10",
        "codecs/ollama/encode_request.py",
        'body["think"] = think',
        'body["thinking"] = think',
        (
            "tests/codecs/ollama/test_encode_request.py::test_thinking_is_asked_for_as_the_model_takes_it",
        ),
    ),
    Break(
        "PX-11",
        "codecs/ollama/decode_stream.py",
        "said += draft.think(message.thinking)",
        "said += draft.text(message.thinking)",
        (
            "tests/codecs/ollama/test_decode_stream.py::test_one_line_may_hold_thought_text_and_call_in_that_order",
        ),
    ),
    Break(
        "PX-12",
        "codecs/anthropic/encode_stream.py",
        '{"type": "thinking", "thinking": "", "signature": ""}',
        '{"type": "thinking", "signature": ""}',
        (
            "tests/codecs/anthropic/test_encode_stream.py::test_a_thought_is_closed_before_the_text_opens",
        ),
    ),
    Break(
        "PX-13",
        "codecs/anthropic/encode_stream.py",
        '(b"thinking_delta", b"thinking")',
        '(b"thinking_delta", b"text")',
        (
            "tests/codecs/anthropic/test_encode_stream.py::test_a_thought_is_closed_before_the_text_opens",
        ),
    ),
    Break(
        "PX-14",
        "codecs/anthropic/encode_stream.py",
        '(b"input_json_delta", b"partial_json")',
        '(b"input_json_delta", b"json")',
        (
            "tests/codecs/anthropic/test_encode_stream.py::test_a_call_opens_empty_and_gets_its_input_in_pieces",
        ),
    ),
    Break(
        "PX-15",
        "codecs/anthropic/encode_stream.py",
        '{"type": "tool_use", "id": id, "name": name, "input": {}}',
        '{"type": "tool_use", "id": id, "name": name}',
        (
            "tests/codecs/anthropic/test_encode_stream.py::test_a_call_opens_empty_and_gets_its_input_in_pieces",
        ),
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
        "PX-20",
        "codecs/ollama/encode_request.py",
        'if not self._target.can("thinking"):',
        "if self._target:",
        (
            "tests/codecs/ollama/test_encode_request.py::test_thinking_is_asked_for_as_the_model_takes_it",
        ),
    ),
    Break(
        "PX-21",
        "codecs/ollama/encode_request.py",
        'return self._unasked(levels=levels) if think.mode == "unset" else True',
        'return self._unasked(levels=levels) if think.mode == "unset" else None',
        (
            "tests/codecs/ollama/test_encode_request.py::test_thinking_is_asked_for_as_the_model_takes_it",
        ),
    ),
    Break(
        "PX-23",
        "core/ids.py",
        'return f"toolu_{self.draw(16)}"',
        'return f"toolu_{self.draw(12)}"',
        ("tests/core/test_ids.py::test_call_ids_have_sixteen_digits_and_do_not_repeat",),
    ),
    Break(
        "PX-24",
        "healing/ladder.py",
        "words=words).heal_object(arguments)",
        "words=words).heal_object({})",
        ("tests/healing/test_ladder.py::test_an_object_is_the_same_object",),
    ),
    Break(
        "PX-25",
        "healing/ladder.py",
        "text = arguments if isinstance(arguments, str) else dumps(arguments)",
        "text = dumps(arguments)",
        ("tests/healing/test_ladder.py::test_encoding_again_is_undone",),
    ),
    Break(
        "PX-26",
        "healing/reading.py",
        "        return lx.unescape_layer(text)\n",
        "        return None\n",
        ("tests/healing/test_ladder.py::test_escaping_again_is_undone",),
    ),
    Break(
        "PX-27",
        "healing/ladder.py",
        'Healing({"raw": self._text}, 0',
        "Healing({}, 0",
        ("tests/healing/test_ladder.py::test_the_hopeless_is_kept_as_it_is",),
    ),
    Break(
        "PX-29",
        "accounting/count.py",
        "return sum((len(word) + 3) // 4 for word in text.split())",
        "return (len(text) + 3) // 4 * 1",
        ("tests/accounting/test_count.py::test_words_are_counted_in_fours",),
    ),
    Break(
        "PX-30",
        "accounting/count.py",
        'return " ".join(chain((part.text for part in request.system), said))',
        'return " ".join(said)',
        (
            "tests/accounting/test_count.py::test_a_request_says_system_text_inputs_and_results_in_one_line",
        ),
    ),
    Break(
        "PX-31",
        "server/gateway.py",
        "        counted = self.board.count(request, self.roster.address(request.model))",
        "        await self.roster.route(request.model)\n        counted = self.board.count(request, self.roster.address(request.model))",
        ("tests/server/test_routes.py::test_tokens_are_counted_without_asking_anybody",),
    ),
    Break(
        "PX-31",
        "server/gateway.py",
        "        return counted.tokens",
        "        return counted.tokens + 1",
        ("tests/server/test_routes.py::test_tokens_are_counted_without_asking_anybody",),
    ),
    Break(
        "PX-32",
        "accounting/count.py",
        "yield part.raw or dumps(part.arguments)",
        "yield part.name",
        (
            "tests/accounting/test_count.py::test_a_request_says_system_text_inputs_and_results_in_one_line",
        ),
    ),
    Break(
        "PX-33",
        "accounting/count.py",
        "for inner in part.content:\n",
        "for inner in ():\n",
        (
            "tests/accounting/test_count.py::test_a_request_says_system_text_inputs_and_results_in_one_line",
        ),
    ),
    Break(
        "PX-34",
        "codecs/ollama/encode_request.py",
        '        if tools:\n            body["tools"] = tools\n',
        '        body["tools"] = tools\n',
        ("tests/codecs/ollama/test_encode_request.py::test_tools_are_present_only_if_given",),
    ),
    Break(
        "PX-35",
        "codecs/ollama/encode_turns.py",
        'message["tool_calls"] = calls',
        "pass",
        (
            "tests/codecs/ollama/test_encode_turns.py::test_a_round_with_a_tool_is_told_in_three_messages",
        ),
    ),
    Break(
        "PX-36",
        "codecs/ollama/encode_turns.py",
        'message["tool_call_id"] = result.call_id',
        "pass",
        (
            "tests/codecs/ollama/test_encode_turns.py::test_a_round_with_a_tool_is_told_in_three_messages",
        ),
    ),
    Break(
        "PX-37",
        "codecs/ollama/decode_stream.py",
        'id=call.id or "")',
        'id=call.id or "none")',
        (
            "tests/codecs/ollama/test_decode_stream.py::test_a_recorded_answer_says_what_the_server_said",
            "tests/codecs/ollama/test_decode_stream.py::test_arguments_are_an_object_or_the_text_of_one",
        ),
    ),
    Break(
        "PX-38",
        "codecs/anthropic/encode_stream.py",
        "        case Thinking():\n            return _thoughts(part)",
        "        case Thinking():\n            return []",
        ("tests/codecs/anthropic/test_encode_stream.py::test_a_whole_body_has_all_blocks",),
    ),
    Break(
        "PX-39",
        "codecs/anthropic/encode_stream.py",
        'return [{"type": "tool_use", "id": id, "name": name, "input": _input(part)}]',
        "return []",
        ("tests/codecs/anthropic/test_encode_stream.py::test_a_whole_body_has_all_blocks",),
    ),
    Break(
        "PX-43",
        "codecs/anthropic/encode_stream.py",
        "        self._index += 1\n",
        "        self._index += 0\n",
        (
            "tests/codecs/anthropic/test_encode_stream.py::test_a_thought_is_closed_before_the_text_opens",
        ),
    ),
    Break(
        "PX-44",
        "codecs/anthropic/encode_stream.py",
        "return [*arguments, self._close()]",
        "return [*arguments]",
        (
            "tests/codecs/anthropic/test_encode_stream.py::test_a_call_opens_empty_and_gets_its_input_in_pieces",
        ),
    ),
    Break(
        "PX-45",
        "codecs/ollama/decode_stream.py",
        "for call in message.tool_calls or ():",
        "for call in () if chunk.done else message.tool_calls or ():",
        ("tests/codecs/ollama/test_decode_stream.py::test_calls_may_stand_in_any_line",),
    ),
    Break(
        "PX-46",
        "codecs/anthropic/encode_stream.py",
        "return [self._end(reason, message), _MESSAGE_STOP]",
        "return [self._end(reason, message)]",
        ("tests/codecs/anthropic/test_encode_stream.py::test_a_stream_has_its_order",),
    ),
    Break(
        "PX-47",
        "codecs/anthropic/encode_stream.py",
        "return [start, PING]",
        "return [start]",
        (
            "tests/codecs/anthropic/test_encode_stream.py::test_a_thought_is_closed_before_the_text_opens",
        ),
    ),
    Break(
        "PX-48",
        "codecs/anthropic/encode_stream.py",
        '{"type": "error", "error": _encode_problem(problem), "request_id": request_id}',
        '{"error": _encode_problem(problem), "request_id": request_id}',
        ("tests/codecs/anthropic/test_encode_stream.py::test_every_problem_has_its_envelope",),
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
        ("tests/codecs/ollama/test_encode_request.py::test_a_plain_question_is_a_plain_body",),
    ),
    Break(
        "PX-52",
        "server/gateway.py",
        "        return counted.tokens",
        "        return 1",
        ("tests/server/test_routes.py::test_tokens_are_counted_without_asking_anybody",),
    ),
    Break(
        "PX-52",
        "policy/thinking.py",
        'if setting == "reject" or (setting == "auto" and asked_for):',
        'if setting == "reject":',
        (
            "tests/server/test_messages.py::test_thinking_on_a_model_that_cannot_is_refused_to_an_api_caller",
        ),
    ),
    Break(
        "PX-X10",
        "upstream/ollama.py",
        "KEPT = 300.0",
        "KEPT = 0.0",
        ("tests/server/test_routes.py::test_a_server_is_asked_once_what_its_model_can_do",),
    ),
    Break(
        "PX-X10",
        "server/gateway.py",
        'self.exchange.extra_headers["x-toolbridge-warning"] = warning(told)',
        "pass",
        ("tests/server/test_routes.py::test_what_was_dropped_is_said_in_a_header_and_counted",),
    ),
    Break(
        "CB-01",
        "codecs/anthropic/decode_request.py",
        "top_k=asked.top_k",
        "top_k=None",
        ("tests/codecs/anthropic/test_decode_request.py::test_every_optional_field_is_read",),
    ),
    Break(
        "CB-01",
        "codecs/anthropic/decode_request.py",
        '    if asked.max_tokens is None:\n        raise MalformedRequest("field required", where="max_tokens")\n',
        "    if asked.max_tokens is None:\n        return\n",
        (
            "tests/codecs/anthropic/test_decode_request.py::test_a_required_field_is_missed_by_its_name",
        ),
    ),
    Break(
        "CB-02",
        "codecs/anthropic/decode_request.py",
        "[Text(message.content, source=said)] if message.content else []",
        "[]",
        ("tests/codecs/anthropic/test_decode_request.py::test_a_string_is_one_text_block",),
    ),
    Break(
        "CB-03",
        "node/framing.py",
        '"image/png": "png",',
        '"image/png": "image/png",',
        ("tests/node/test_framing.py::test_pictures_go_beside_the_prompt",),
    ),
    Break(
        "CB-04",
        "codecs/anthropic/encode_stream.py",
        'id if id.startswith("msg_") else f"msg_{id}"',
        "id",
        (
            "tests/codecs/anthropic/test_encode_stream.py::test_an_id_from_elsewhere_gets_anthropics_prefix",
        ),
    ),
    Break(
        "CB-05",
        "codecs/anthropic/encode_stream.py",
        '{"type": _error_type(problem), "message": text}',
        '{"code": _error_type(problem), "message": text}',
        ("tests/codecs/anthropic/test_encode_stream.py::test_every_problem_has_its_envelope",),
    ),
    Break(
        "CB-06",
        "config.py",
        "port: Port = 3456",
        "port: Port = 3457",
        ("tests/test_config.py::test_the_defaults",),
    ),
    Break(
        "CB-06",
        "node/settings.py",
        '"native": "0.0002"',
        '"native": "0.0003"',
        (
            "tests/node/test_settings.py::TestSettings::test_the_defaults_are_those_of_the_network_and_the_bridge",
        ),
    ),
    Break(
        "CB-06",
        "node/settings.py",
        "_STABLE_PRICE = 5000",
        "_STABLE_PRICE = 500",
        (
            "tests/node/test_settings.py::TestSettings::test_the_defaults_are_those_of_the_network_and_the_bridge",
        ),
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
        "CB-10",
        "node/framing.py",
        "self.images.append(Attachment(image.data, format))",
        "pass",
        ("tests/node/test_framing.py::test_pictures_go_beside_the_prompt",),
    ),
    Break(
        "CB-11",
        "node/framing.py",
        "if not request.turns:",
        "if request.turns is None:",
        ("tests/node/test_framing.py::test_no_messages_are_an_error",),
    ),
    Break(
        "CB-12",
        "accounting/count.py",
        "return (len(text) + 3) // 4",
        "return len(text) // 4",
        ("tests/accounting/test_count.py::test_characters_are_counted_in_fours",),
    ),
    Break(
        "CB-13",
        "codecs/anthropic/encode_stream.py",
        "Usage(output=1)",
        "Usage()",
        (
            "tests/codecs/anthropic/test_encode_stream.py::test_the_start_has_all_that_strict_clients_want",
        ),
    ),
    Break(
        "CB-14",
        "core/ids.py",
        'return f"msg_{self.draw(16)}"',
        "return self.draw(16)",
        ("tests/core/test_ids.py::test_every_kind_of_id_has_its_form",),
    ),
    Break(
        "CB-17",
        "node/session.py",
        "await self._renew(error)",
        "raise error",
        (
            "tests/node/test_session_faults.py::TestRecovery::test_a_session_that_is_over_is_dropped_and_asked_for_again_once",
        ),
    ),
    Break(
        "CB-19",
        "node/scoring.py",
        "stake=0.35, price=0.30, uptime=0.20, latency=0.15",
        "stake=0.25, price=0.25, uptime=0.25, latency=0.25",
        ("tests/node/test_hosts.py::test_hosts_are_ranked_by_their_scores",),
    ),
    Break(
        "CB-21",
        "codecs/anthropic/decode_request.py",
        "if asked.max_tokens <= 0:",
        "if asked.max_tokens < 0:",
        ("tests/codecs/anthropic/test_decode_request.py::test_the_path_of_a_fault_is_told",),
    ),
    Break(
        "CB-23",
        "server/streaming.py",
        '{"connection": "keep-alive"}',
        "{}",
        ("tests/server/test_messages.py::test_a_stream_has_the_headers_of_a_stream",),
    ),
    Break(
        "CB-24",
        "server/app.py",
        '"GET, POST, DELETE, OPTIONS"',
        '"GET"',
        ("tests/server/test_access.py::test_a_preflight_is_answered",),
    ),
    Break(
        "CB-25",
        "server/auth.py",
        'raise NotAllowed("the key is wrong")',
        "return",
        ("tests/server/test_access.py::test_a_key_is_asked_for_when_one_is_set",),
    ),
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
        "ZG-08",
        "codecs/anthropic/decode_stream.py",
        "return self._read_input(index, delta.partial_json)",
        "return []",
        (
            "tests/codecs/anthropic/test_decode_stream.py::test_a_call_is_read_from_its_start_and_its_pieces",
        ),
    ),
    Break(
        "ZG-09",
        "codecs/anthropic/decode_stream.py",
        'for kind in ("text", "thinking", "call"):',
        'for kind in ("text", "thinking"):',
        (
            "tests/codecs/anthropic/test_decode_stream.py::test_a_call_is_read_from_its_start_and_its_pieces",
        ),
    ),
    Break(
        "ZG-10",
        "codecs/openai_chat/calls.py",
        "            self._by_index[piece.index] = slot\n",
        "            pass\n",
        ("tests/codecs/openai_chat/test_calls.py::test_pieces_go_to_the_call_of_their_index",),
    ),
    Break(
        "ZG-14",
        "codecs/openai_responses/decode_stream.py",
        '    "response.function_call_arguments.delta": ("function_call", ""),\n',
        "",
        (
            "tests/codecs/openai_responses/test_decode_stream.py::test_a_call_begins_with_its_item_and_ends_with_it",
        ),
    ),
    Break(
        "ZG-16",
        "codecs/openai_responses/decode_stream.py",
        '    "response.reasoning.delta": ("reasoning", "content"),\n',
        "",
        (
            "tests/codecs/openai_responses/test_decode_stream.py::test_early_reasoning_events_are_thoughts",
        ),
    ),
    Break(
        "ZG-18",
        "codecs/gemini/decode_stream.py",
        "return self._read_call(part, part.function_call)",
        "return []",
        (
            "tests/codecs/gemini/test_decode_stream.py::test_a_call_in_one_part_is_a_start_a_delta_and_an_end",
        ),
    ),
    Break(
        "ZG-22",
        "codecs/ollama/decode_stream.py",
        "return self._draft.usage(Usage(read, written)) if read or written else []",
        "return []",
        (
            "tests/codecs/ollama/test_decode_stream.py::test_a_recorded_answer_says_what_the_server_said",
        ),
    ),
    Break(
        "ZG-24",
        "accounting/cost.py",
        "total=spent_in + spent_out + spent_read + spent_write,",
        "total=spent_in + spent_out,",
        (
            "tests/accounting/test_cost.py::test_the_total_is_the_sum_of_the_parts",
            "tests/accounting/test_cost.py::test_tokens_times_rate_per_million_and_their_sum",
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
    Break(
        "ZG-25",
        "codecs/anthropic/encode_request.py",
        "return min(most // 3, MAX_TOKENS) if most else MAX_TOKENS",
        "return most or MAX_TOKENS",
        ("tests/sdk/test_places.py::test_anthropic_may_write_a_third_of_what_it_can_unless_told",),
    ),
    Break(
        "ZG-26",
        "codecs/openai_chat/encode_request.py",
        'body["store"] = False',
        'body["store"] = True',
        (
            "tests/codecs/openai_chat/test_encode_request.py::test_store_is_refused_only_where_it_is_known",
        ),
    ),
    Break(
        "ZG-27",
        "codecs/openai_responses/encode_request.py",
        'self._body["store"] = False',
        'self._body["store"] = True',
        (
            "tests/codecs/openai_responses/test_encode_request.py::test_nothing_is_stored_and_thoughts_come_sealed",
        ),
    ),
    Break(
        "ZG-28",
        "codecs/openai_responses/encode_request.py",
        'self._body["prompt_cache_key"] = self._request.session',
        "pass",
        (
            "tests/codecs/openai_responses/test_encode_request.py::test_the_session_is_the_key_of_the_cache",
        ),
    ),
    Break(
        "ZG-29",
        "switchboard/places.py",
        'return {"openai": True} if is_openai and place.api == "openai_responses" else {}',
        "return {}",
        (
            "tests/switchboard/test_places.py::test_only_openai_by_its_url_is_asked_to_keep_a_prefix_for_a_day",
        ),
    ),
    Break(
        "ZG-32",
        "codecs/openai_responses/decode_stream.py",
        '    "response.function_call_arguments.delta": ("function_call", ""),\n',
        "",
        (
            "tests/codecs/openai_responses/test_decode_stream.py::test_a_call_begins_with_its_item_and_ends_with_it",
        ),
    ),
    Break(
        "ZG-35",
        "codecs/ollama/decode_stream.py",
        "for call in message.tool_calls or ():",
        "for call in (message.tool_calls or ())[:1]:",
        ("tests/codecs/ollama/test_decode_stream.py::test_every_call_of_the_list_is_read",),
    ),
    Break(
        "ZG-35",
        "codecs/openai_chat/calls.py",
        "            self._by_index[piece.index] = slot\n",
        "            pass\n",
        ("tests/codecs/openai_chat/test_calls.py::test_pieces_go_to_the_call_of_their_index",),
    ),
    Break(
        "TF-03",
        "framed/events.py",
        "class JsonBegin(msgspec.Struct, frozen=True):",
        'class JsonBegin(msgspec.Struct, frozen=True, rename={"schema": "shape"}):',
        ("tests/framed/test_events.py::test_an_event_says_what_it_must_and_nothing_else",),
    ),
    Break(
        "TF-11",
        "config.py",
        "ping: Seconds = 15.0",
        "ping: Seconds = 150.0",
        ("tests/test_config.py::test_silence_is_broken_in_time_for_every_client",),
    ),
    Break(
        "TF-11",
        "server/stream.py",
        '_PING = b"event: ping\\ndata: {}\\n\\n"',
        '_PING = b": ping\\n\\n"',
        ("tests/server/test_stream.py::test_silence_is_filled_with_pings_that_have_no_id",),
    ),
    Break(
        "TF-12",
        "framed/sentinels.py",
        '"object": "OBJECT"',
        '"object": "THING"',
        ("tests/framed/test_contract.py::test_a_sentinel_is_read_as_it_was_written",),
    ),
    Break(
        "TF-13",
        "framed/sentinels.py",
        '"tool": "TOOL_CALL"',
        '"tool": "TOOL"',
        ("tests/framed/test_contract.py::test_a_sentinel_is_read_as_it_was_written",),
    ),
    Break(
        "TF-14",
        "framed/sentinels.py",
        '"result": "RESULT"',
        '"result": "REPLY"',
        ("tests/framed/test_contract.py::test_a_sentinel_is_read_as_it_was_written",),
    ),
    Break(
        "TF-16",
        "framed/sentinels.py",
        "id=({_ID}) schema=|",
        "id=({_ID}) +schema=|",
        ("tests/framed/test_grammar.py::test_what_is_nearly_a_sentinel_is_text",),
    ),
    Break(
        "TF-17",
        "framed/sentinels.py",
        '.replace(CLOSING, r"\\u27E7")',
        "",
        (
            "tests/framed/test_contract.py::test_brackets_in_the_strings_of_a_frame_that_we_write_are_escaped",
        ),
    ),
    Break(
        "TF-21",
        "framed/limits.py",
        "frame: int = 65_536",
        "frame: int = 131_072",
        ("tests/framed/test_events.py::test_the_limits_are_those_of_the_specification",),
    ),
    Break(
        "TF-22",
        "framed/limits.py",
        "depth: int = 16",
        "depth: int = 64",
        ("tests/framed/test_events.py::test_the_limits_are_those_of_the_specification",),
    ),
    Break(
        "TF-23",
        "framed/limits.py",
        "arguments: int = 32_768",
        "arguments: int = 65_536",
        ("tests/framed/test_events.py::test_the_limits_are_those_of_the_specification",),
    ),
    Break(
        "TF-24",
        "framed/results.py",
        "return result if len(written) <= most else _cut(written, most)",
        "return result",
        ("tests/framed/test_conversation.py::test_a_large_result_is_cut_to_its_limit",),
    ),
    Break(
        "TF-25",
        "runs/order.py",
        "frame_timeout_ms: Milliseconds = 15_000",
        "frame_timeout_ms: Milliseconds = 60_000",
        (
            "tests/runs/test_profiles.py::test_times_and_retries_come_from_the_environment_unless_the_request_says",
        ),
    ),
    Break(
        "TF-26",
        "runs/order.py",
        "tool_timeout_ms: Milliseconds = 8_000",
        "tool_timeout_ms: Milliseconds = 80_000",
        (
            "tests/runs/test_profiles.py::test_times_and_retries_come_from_the_environment_unless_the_request_says",
        ),
    ),
    Break(
        "TF-27",
        "tools/registry.py",
        "if not failure.again or len(tries) > limits.retries:",
        "if tries:",
        ("tests/tools/test_registry.py::test_a_tool_that_fails_is_asked_again",),
    ),
    Break(
        "TF-28",
        "runs/order.py",
        "repair_retries: Few = 1",
        "repair_retries: Few = 2",
        (
            "tests/runs/test_profiles.py::test_times_and_retries_come_from_the_environment_unless_the_request_says",
        ),
    ),
    Break(
        "TF-33",
        "runs/log.py",
        "AHEAD = 128",
        "AHEAD = 256",
        ("tests/runs/test_log.py::test_a_writer_waits_when_128_events_are_unread",),
    ),
    Break(
        "TF-35",
        "tools/registry.py",
        "if (kept := await _kept(context)) is not None:",
        "if (kept := await _kept(context)) is not None and not tool:",
        ("tests/tools/test_registry.py::test_a_repeat_with_the_same_key_gets_the_first_result",),
    ),
    Break(
        "TF-36",
        "runs/profiles.py",
        '"seed": 42',
        '"seed": 41',
        ("tests/runs/test_profiles.py::test_the_demo_profile_is_steady",),
    ),
    Break(
        "TF-37",
        "runs/profiles.py",
        'DEMO_MODEL = "gpt-oss-20b"',
        'DEMO_MODEL = "gpt-oss-120b"',
        ("tests/runs/test_profiles.py::test_the_environment_names_a_profiles_model",),
    ),
    Break(
        "TF-38",
        "runs/profiles.py",
        '"REPAIR_RETRIES": "repair_retries",',
        "",
        (
            "tests/runs/test_profiles.py::test_times_and_retries_come_from_the_environment_unless_the_request_says",
        ),
    ),
    Break(
        "TF-39",
        "runs/profiles.py",
        'DEV_MODEL = "llama-3.1-8b-instruct"',
        'DEV_MODEL = "llama3"',
        ("tests/runs/test_profiles.py::test_the_environment_names_a_profiles_model",),
    ),
    Break(
        "TF-44",
        "framed/shapes/Action.json",
        '"search",\n        "book"',
        '"search",\n        "book",\n        "eat"',
        ("tests/framed/test_builtin.py::test_an_action_is_a_mode_and_one_of_two_targets",),
    ),
    Break(
        "TF-45",
        "framed/shapes/places.search.json",
        '"maxLength": 200',
        '"maxLength": 201',
        ("tests/framed/test_builtin.py::test_struct_and_json_schema_give_the_same_verdict",),
    ),
    Break(
        "TF-50",
        "server/journal.py",
        'text = self._redactor.text(_pretty(bounded) if self._style == "pretty" else dumps(bounded))',
        'text = _pretty(bounded) if self._style == "pretty" else dumps(bounded)',
        ("tests/server/test_journal.py::test_a_line_is_bounded_and_holds_no_secret",),
    ),
    Break(
        "TF-50",
        "runs/artifacts.py",
        "written = self._artifacts.redactor.json(value)",
        "written = Redacted(json.dumps(value, default=str).encode())",
        ("tests/runs/test_artifacts.py::test_no_file_holds_a_secret",),
    ),
    Break(
        "TF-50",
        "store/sqlite.py",
        "safe = self.redactor.encoded(value)",
        "safe = value",
        ("tests/server/test_planted_secrets.py::test_nothing_that_is_kept_holds_a_secret",),
    ),
    Break(
        "TF-52",
        "runs/streams.py",
        "        live.task.cancel()\n",
        "        pass\n",
        ("tests/server/test_stream.py::test_an_abort_stops_the_model_and_ends_the_stream",),
    ),
    Break(
        "TF-52",
        "runs/streams.py",
        "elif loop.time() - live.alone > self._grace:",
        "elif loop.time() - live.alone > 3600:",
        ("tests/server/test_stream.py::test_a_run_that_nobody_follows_is_abandoned",),
    ),
    Break(
        "TF-55",
        "runs/order.py",
        "seed=order.seed",
        "seed=None",
        ("tests/server/test_stream.py::test_the_same_seed_gives_the_same_stream",),
    ),
    Break(
        "TF-64",
        "switchboard/sources.py",
        "await asyncio.sleep(0)  #",
        "await asyncio.sleep(0.1)  #",
        (
            "tests/server/test_stream.py::test_the_demo_keeps_its_budget_of_time_and_breaks_no_schema",
        ),
    ),
    Break(
        "CL-04",
        "config.py",
        "first_byte: Grace = 5.0",
        "first_byte: Grace = 60.0",
        ("tests/test_config.py::test_silence_is_broken_in_time_for_every_client",),
    ),
    Break(
        "CL-04",
        "server/streaming.py",
        "await self.write(self._writer.keep_alive())",
        'await self.write(b": waiting\\n\\n")',
        (
            "tests/server/test_messages.py::test_silence_is_filled_with_pings_and_headers_do_not_wait_for_ever",
        ),
    ),
    Break(
        "CL-05",
        "codecs/anthropic/encode_stream.py",
        'return [_frame("error", {"error": _encode_problem(problem)})]',
        'return [_frame("error", {"error": _encode_problem(problem)}), _MESSAGE_STOP]',
        ("tests/codecs/anthropic/test_encode_stream.py::test_a_failure_closes_nothing",),
    ),
    Break(
        "CL-06",
        "codecs/anthropic/encode_stream.py",
        'return [_frame("error", {"error": _encode_problem(problem)})]',
        'return [self._blocks._close(), _frame("error", {"error": _encode_problem(problem)})]',
        ("tests/server/test_messages.py::test_a_call_with_half_its_arguments_is_never_closed",),
    ),
    Break(
        "CL-06",
        "healing/stage.py",
        "return Outcome(raw, dumps(raw), (*outcome.steps, step), hopeless=True)",
        "return Outcome(raw, text, (*outcome.steps, step), hopeless=True)",
        ("tests/server/test_messages.py::test_a_call_that_is_closed_has_arguments_that_are_json",),
    ),
    Break(
        "CL-07",
        "codecs/anthropic/encode_stream.py",
        '"stop_reason": STOPS.get(reason, "end_turn"),',
        '"stop_reason": "end_turn",',
        ("tests/codecs/anthropic/test_encode_stream.py::test_every_stop_reason_is_written",),
    ),
    Break(
        "CL-08",
        "core/draft.py",
        "while not id or id in self._called:",
        "while id in self._called:",
        (
            "tests/codecs/openai_chat/test_calls.py::test_a_call_without_an_id_or_with_a_used_one_gets_its_own",
        ),
    ),
    Break(
        "CL-09",
        "codecs/anthropic/encode_stream.py",
        'headers["retry-after"] = str(math.ceil(wait))',
        "pass",
        (
            "tests/codecs/anthropic/test_encode_stream.py::test_clients_are_told_whether_to_ask_again",
        ),
    ),
    Break(
        "CL-11",
        "history/prefix.py",
        "if not part.text.startswith(BILLING):",
        "if part.text:",
        (
            "tests/server/test_messages.py::test_the_same_conversation_is_the_same_prefix_for_the_model",
        ),
    ),
]
