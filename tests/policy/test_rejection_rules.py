"""Rejections in the words of providers, and the body that is sent instead."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.messages import Problem
from toolbridge.policy.corrections import apply
from toolbridge.policy.rejection_rules import find_corrections

USER = {"role": "user", "content": "hi"}
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "array", "minItems": 1}, "minItems": {"type": "integer"}},
            "required": ["a"],
        },
    },
}
CHAT = {"model": "m", "messages": [USER]}
CLAUDE = {"model": "m", "max_tokens": 4096, "messages": [USER]}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
FORCED = {"type": "function", "function": {"name": "f"}}
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "integer"}}, "required": ["x"]}  # fmt: skip


def sent_again(text: str, body: dict, api: str = "openai_chat", status: int = 400, kind="rejected"):
    """Return the body after one correction, and what is reported."""
    before = copy.deepcopy(body)
    problem = Problem(kind, text, status=status)
    found = find_corrections(problem, body, api)
    corrected = apply(body, found, api, "there/m")
    assert body == before, "the given body is never changed"
    return corrected.body, [str(loss) for loss in corrected.losses]


def calls(*ids: str, **fields) -> dict:
    made = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids]  # fmt: skip
    return {"role": "assistant", "content": "", "tool_calls": made, **fields}


@every_row(
    ("text", "given", "left"),
    [
        # OpenAI
        ("Unsupported parameter: 'temperature' is not supported with this model.",
         {"temperature": 0.1}, {}),
        (("Unsupported value: 'temperature' does not support 0.1 with this model. Only the default (1)"
         " value is supported."), {"temperature": 0.1, "top_p": 1}, {"top_p": 1}),
        (("Unsupported parameter: 'max_tokens' is not supported with this model. Use"
         " 'max_completion_tokens' instead."), {"max_tokens": 9}, {"max_completion_tokens": 9}),
        (("Unsupported value: 'minimal' is not supported with the 'gpt-5.1' model. Supported values"
         " are: 'none', 'low', 'medium', and 'high'."),
         {"reasoning_effort": "minimal"}, {"reasoning_effort": "low"}),
        (("Unsupported value: 'reasoning_effort' does not support 'none' with this model. Supported"
         " values are: 'minimal', 'low', 'medium', and 'high'."),
         {"reasoning_effort": "none"}, {"reasoning_effort": "minimal"}),
        (("Unsupported value: 'xhigh' is not supported with the 'gpt-5' model. Supported values are:"
         " 'minimal', 'low', 'medium', and 'high'."),
         {"reasoning": {"effort": "xhigh", "summary": "auto"}},
         {"reasoning": {"effort": "high", "summary": "auto"}}),
        ("Unsupported parameter: 'reasoning.effort' is not supported with this model.",
         {"reasoning": {"effort": "low"}}, {}),
        ("Unrecognized request argument supplied: verbosity", {"verbosity": "low"}, {}),
        ("Unrecognized request arguments supplied: store, seed", {"store": False, "seed": 1}, {}),
        ("Unknown parameter: 'metadata'.", {"metadata": {"a": "b"}}, {}),
        # xAI: camelCase names
        ("Argument not supported on this model: presencePenalty", {"presence_penalty": 0}, {}),
        ("Model grok-4.6 does not support parameter presencePenalty.", {"presence_penalty": 0}, {}),
        ("Model grok-4-latest does not support parameter reasoningEffort.",
         {"reasoning_effort": "high"}, {}),
        # Fireworks
        ("Extra inputs are not permitted, field: 'stream_options', value: {'include_usage': True}",
         {"stream_options": {"include_usage": True}}, {}),
        # pydantic: Mistral, vLLM
        ("user: Extra inputs are not permitted; seed: Extra inputs are not permitted",
         {"user": "u", "seed": 1}, {}),
        ("temperature: Input should be less than or equal to 1.5",
         {"temperature": 2.0}, {"temperature": 1.5}),
        ("reasoning_effort: Input should be 'low', 'medium' or 'high'",
         {"reasoning_effort": "max"}, {"reasoning_effort": "high"}),
        # Go servers
        ('json: unknown field "parallel_tool_calls"', {"parallel_tool_calls": True}, {}),
        ("The parameter `logprobs` is not supported by this endpoint", {"logprobs": True}, {}),
        # limits of the answer
        (("max_tokens is too large: 9999. This model supports at most 4096 completion tokens, whereas"
         " you provided 9999."), {"max_tokens": 9999}, {"max_tokens": 4096}),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
         {"max_tokens": 9000}, {"max_tokens": 8192}),
        (("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is"
         " less than the `context_window` for this model"),
         {"max_tokens": 9000}, {"max_tokens": 8192}),
        (("input length and `max_tokens` exceed context limit: 170941 + 32000 > 202752, decrease"
         " input length"), {"max_tokens": 32000}, {"max_tokens": 31811}),
        # DeepSeek
        ("This response_format type is unavailable now",
         {"response_format": {"type": "json_object"}}, None),
        # Cerebras
        ("Unsupported parameter(s): `frequency_penalty`, `logit_bias` is not supported",
         {"logit_bias": {}}, {}),
    ],
)  # fmt: skip
def test_a_parameter_of_chat_completions(text, given, left):
    body, losses = sent_again(text, CHAT | given)
    if left is None:
        assert body["messages"][0]["content"].startswith("Answer with JSON only")
        return
    assert body == CHAT | left
    assert losses
    assert all("there/m" in loss for loss in losses)


@every_row(
    ("text", "given", "left"),
    [
        (('"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and'
         ' "output_config.effort" to control thinking behavior.'),
         {"thinking": {"type": "enabled", "budget_tokens": 2000}},
         {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("adaptive thinking is not supported on this model",
         {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
         {"thinking": {"type": "enabled", "budget_tokens": 2048}, "output_config": {"effort": "low"}}),
        ("This model does not support the effort parameter", {"output_config": {"effort": "low"}}, {}),
        ("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
         {"temperature": 0.5, "thinking": {"type": "adaptive"}}, {"thinking": {"type": "adaptive"}}),
        ("temperature: Extra inputs are not permitted", {"temperature": 0.5}, {}),
        ("`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
         {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5}),
        ("Thinking may not be enabled when tool_choice forces tool use.",
         {"thinking": {"type": "adaptive"}, "tool_choice": {"type": "tool", "name": "f"}},
         {"thinking": {"type": "adaptive"}, "system": "Call the tool f now."}),
        ("max_tokens: 4096 > 1000, which is the maximum allowed number of output tokens for m",
         {"thinking": {"type": "enabled", "budget_tokens": 2000}}, {"max_tokens": 1000}),
        ("input length and `max_tokens` exceed context limit: 199000 + 4096 > 202000, decrease",
         {"thinking": {"type": "enabled", "budget_tokens": 3500}},
         {"max_tokens": 3000, "thinking": {"type": "enabled", "budget_tokens": 2999}}),
    ],
)  # fmt: skip
def test_a_parameter_of_anthropic(text, given, left):
    body, losses = sent_again(text, CLAUDE | given, "anthropic")
    assert body == CLAUDE | left
    assert losses


def thinking(**config):
    return {"generationConfig": {"thinkingConfig": config}}


@every_row(
    ("text", "given", "left"),
    [
        ("You can only set only one of thinking budget and thinking level.",
         thinking(thinkingBudget=1, thinkingLevel="low"), thinking(thinkingLevel="low")),
        ("Thinking level is not supported for this model.",
         thinking(thinkingLevel="LOW", includeThoughts=True),
         thinking(includeThoughts=True, thinkingBudget=2048)),
        ("The model does not support setting thinking_budget to 0",
         thinking(thinkingBudget=0, includeThoughts=False), thinking(includeThoughts=False)),
        (('Invalid JSON payload received. Unknown name "topK" at \'generation_config\': Cannot find'
         " field."), {"generationConfig": {"topK": 1, "topP": 1}}, {"generationConfig": {"topP": 1}}),
    ],
)  # fmt: skip
def test_a_parameter_of_gemini(text, given, left):
    body, losses = sent_again(text, GEMINI | given, "gemini")
    assert body == GEMINI | left
    assert losses


def test_a_keyword_of_geminis_schemas_is_moved_into_the_description():
    text = (
        'Invalid JSON payload received. Unknown name "minItems" at '
        "'tools[0].function_declarations[0].parameters': Cannot find field."
    )
    schema = TOOL["function"]["parameters"]
    tools = [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]
    body, losses = sent_again(text, GEMINI | {"tools": tools}, "gemini")
    found = body["tools"][0]["functionDeclarations"][0]["parameters"]
    assert found["properties"]["a"] == {"type": "array", "description": "minItems: 1"}
    assert "minItems" in found["properties"], "a property is no keyword"
    assert losses == ["schemas: there/m rejects minItems; moved into the descriptions"]


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("Unsupported JSON schema fields: {'minItems', 'items'}", ["minItems"]),
        (("invalid schema for response format: response_format/json_schema/a: minItems is not"
         " supported"), ["minItems"]),
        (("Invalid schema for function 'f': In context=('properties', 'a'), 'minItems' is not"
         " permitted."), ["minItems"]),
    ],
)  # fmt: skip
def test_keywords_of_schemas(text, keywords):
    body, _ = sent_again(text, CHAT | {"tools": [TOOL]})
    found = body["tools"][0]["function"]["parameters"]["properties"]["a"]
    assert not set(keywords) & set(found)


def test_objects_are_closed_then_strict_is_left_out():
    text = (
        "Invalid schema for function 'f': In context=(), 'additionalProperties' is required to be "
        "supplied and to be false."
    )
    problem = Problem("rejected", text, status=400)
    given = CHAT | {"tools": [TOOL]}
    first = find_corrections(problem, given, "openai_chat")
    body = apply(given, first, "openai_chat", "m").body
    schema = body["tools"][0]["function"]["parameters"]
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["a"], "the arguments of a tool are the client's"
    second = find_corrections(problem, body, "openai_chat", first)
    body = apply(body, second, "openai_chat", "m").body
    assert "strict" not in body["tools"][0]["function"]
    assert find_corrections(problem, body, "openai_chat", first + second) == ()


def test_every_property_of_an_output_is_required_and_may_be_null():
    text = (
        "Invalid schema for response_format 'n': In context=(), 'required' is required to be supplied "
        "and to be an array including every key in properties."
    )
    format = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}}
    body, _ = sent_again(text, CHAT | {"response_format": format})
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["x", "y"]
    assert schema["properties"] == {"x": {"type": "string"}, "y": {"type": ["integer", "null"]}}
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    "text",
    [
        "Tools with mixed values for 'strict' are not allowed. Please set all tools to 'strict: true'",
        "The compiled grammar is too large, which would cause performance issues.",
    ],
)
def test_strict_is_left_out_everywhere(text):
    body, _ = sent_again(text, CHAT | {"tools": [TOOL, TOOL]}, status=422)
    assert all("strict" not in tool["function"] for tool in body["tools"])


def test_json_mode_gets_the_schema_in_the_prompt():
    format = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    messages = [{"role": "system", "content": "Be kind."}, USER]
    given = {"model": "m", "messages": messages, "response_format": format}
    body, losses = sent_again("This response_format type is unavailable now", given)
    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"][0]["content"].startswith(
        "Be kind.\n\nAnswer with JSON only, of the shape"
    )
    assert losses == ["output schema: there/m has JSON mode only; the schema is in the prompt"]


@pytest.mark.parametrize(
    "text",
    [
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "Unsupported parameter: 'response_format'",
    ],
)
def test_an_output_schema_that_is_rejected_becomes_json_mode_then_a_sentence(text):
    format = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    problem = Problem("rejected", text, status=400)
    given = CHAT | {"response_format": format}
    first = find_corrections(problem, given, "openai_chat")
    body = apply(given, first, "openai_chat", "m").body
    assert body["response_format"] == {"type": "json_object"}
    second = find_corrections(problem, body, "openai_chat", first)
    body = apply(body, second, "openai_chat", "m").body
    assert "response_format" not in body
    assert "JSON Schema" in body["messages"][0]["content"]


def test_a_format_that_is_rejected_by_its_own_name():
    format = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    given = CHAT | {"response_format": format}
    body, _ = sent_again("'json_schema' is not supported with this model", given)
    assert body["response_format"] == {"type": "json_object"}


def test_json_mode_beside_tools_is_left_out_only_there():
    text = "'response_format` json_object cannot be combined with tool/function calling"
    given = CHAT | {"response_format": {"type": "json_object"}}
    assert sent_again(text, given) == (given, [])
    body, _ = sent_again(text, given | {"tools": [TOOL]})
    assert "response_format" not in body


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [(FORCED, "Call the tool f now."), ("required", "Call one of the tools now."), ("auto", "")],
)
def test_a_forced_call_becomes_a_sentence(choice, sentence):
    text = "No endpoints found that support the provided 'tool_choice' value."
    body, losses = sent_again(text, CHAT | {"tools": [TOOL], "tool_choice": choice}, status=404)
    assert "tool_choice" not in body
    assert body["messages"][0]["content"] == (sentence or "hi")
    assert losses == ["tool_choice: there/m cannot force a call; the prompt asks for it"]


HISTORY = [USER, calls("call_1", reasoning_content="hm", reasoning="hm"),
           {"role": "tool", "tool_call_id": "call_1", "content": "ok"}, USER]  # fmt: skip


def test_thoughts_in_the_history_are_left_out_of_every_message():
    text = (
        "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property "
        "'reasoning_content' is unsupported, did you mean 'role'?)]"
    )
    body, losses = sent_again(
        text, CHAT | {"messages": [*HISTORY, calls("c2", reasoning_content="x")]}
    )
    assert "reasoning_content" not in str(body)
    assert body["messages"][1]["reasoning"] == "hm"
    assert losses[0].startswith("messages.*:assistant.reasoning_content: ")


def test_ids_of_nine_characters_are_the_same_for_a_call_and_its_result():
    text = "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."
    body, _ = sent_again(text, CHAT | {"messages": HISTORY})
    id = body["messages"][1]["tool_calls"][0]["id"]
    assert len(id) == 9
    assert id.isalnum()
    assert body["messages"][2]["tool_call_id"] == id
    again, losses = sent_again(text, body)
    assert (again, losses) == (body, [])


def test_a_missing_thought_is_a_blank():
    text = "Missing `reasoning_content` field in the assistant message at message index 1."
    bare = {"role": "assistant", "content": "no calls"}
    body, _ = sent_again(text, CHAT | {"messages": [USER, calls("a"), bare]})
    assert body["messages"][1]["reasoning_content"] == " "
    assert body["messages"][2] == bare


def test_arguments_that_are_no_json():
    text = (
        "The arguments to a tool_call with ID 'x' are not a valid JSON string. Parsing error: EOF"
    )
    message = calls("x", "y")
    message["tool_calls"][0]["function"]["arguments"] = ""
    message["tool_calls"][1]["function"]["arguments"] = "{half"
    body, _ = sent_again(text, CHAT | {"messages": [USER, message]})
    made = [call["function"]["arguments"] for call in body["messages"][1]["tool_calls"]]
    assert made == ["{}", '{"raw":"{half"}']


def test_roles_and_tools_of_other_kinds():
    developer = {"role": "developer", "content": "x"}
    text = "messages[0].role: unknown variant `developer`, expected one of `system`, `user`"
    body, _ = sent_again(text, CHAT | {"messages": [developer, USER]}, status=422)
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    for other in ("the developer was not found", "messages[0].role: unknown variant `x`"):
        assert find_corrections(Problem("rejected", other, status=422), CHAT, "openai_chat") == ()
    text = "tools[1]: unknown variant `custom`, expected `function`"
    custom = {"type": "custom", "custom": {"name": "p"}}
    body, _ = sent_again(text, CHAT | {"tools": [TOOL, custom]})
    assert body["tools"] == [TOOL]
    body, _ = sent_again(text, CHAT | {"tools": [custom], "tool_choice": "auto"})
    assert body == CHAT


@pytest.mark.parametrize(
    "text",
    [
        'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter',
        "role 'system' is not supported on this model",
    ],
)
def test_system_messages_become_marked_user_messages(text):
    blocks = [{"type": "text", "text": "B"}]
    system = [{"role": "system", "content": "A"}, {"role": "system", "content": blocks, "x": 1}]
    body, losses = sent_again(text, CLAUDE | {"messages": [USER, *system]}, "anthropic")
    marked = "<system-reminder>\n{}\n</system-reminder>"
    assert body["messages"] == [
        USER,
        {"role": "user", "content": marked.format("A")},
        {"role": "user", "content": [{"type": "text", "text": marked.format("B")}]},
    ]
    assert losses[0].startswith("role system: ")
    given = CHAT | {"messages": [*system, USER]}
    assert find_corrections(Problem("rejected", text, status=400), given, "openai_chat") == ()


def test_a_path_names_items_of_that_type_only():
    text = "messages.1.content.1.tool_use.text: Extra inputs are not permitted"
    blocks = [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}, "text": ""}]  # fmt: skip
    given = CLAUDE | {"messages": [USER, {"role": "assistant", "content": blocks}]}
    body, losses = sent_again(text, given, "anthropic")
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    ]
    assert losses[0].startswith("messages.*:assistant.content.*:tool_use.text: ")


def test_a_rejection_of_sampling_while_thinking_holds_only_then():
    text = "Unsupported parameter: 'temperature' is not supported with this model."
    thinking = CHAT | {"temperature": 0, "reasoning_effort": "high"}
    found = find_corrections(Problem("rejected", text, status=400), thinking, "openai_chat")
    assert "temperature" not in apply(thinking, found, "openai_chat", "m").body
    plain = CHAT | {"temperature": 0, "reasoning_effort": "none"}
    assert apply(plain, found, "openai_chat", "m").body is plain


def test_another_api():
    text = "This model is only supported in v1/responses and not in v1/chat/completions."
    (found,) = find_corrections(Problem("rejected", text, status=404), CHAT, "openai_chat")
    assert (found.kind, found.values) == ("api", ("openai_responses",))
    assert (
        find_corrections(Problem("rejected", text, status=404), CHAT, "openai_chat", [found]) == ()
    )


def test_tools_without_thinking_where_there_is_no_other_api():
    problem = Problem(
        "rejected",
        "Function tools with reasoning_effort are not supported for gpt-5.6-terra in "
        "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to "
        "'none'.",
        status=400,
    )
    given = CHAT | {"tools": [TOOL], "reasoning_effort": "low"}
    tried = find_corrections(problem, given, "openai_chat")
    found = find_corrections(problem, given, "openai_chat", tried)
    assert apply(given, found, "openai_chat", "m").body["reasoning_effort"] == "none"
    without = CHAT | {"reasoning_effort": "low"}
    assert apply(without, found, "openai_chat", "m").body is without


@every_row(
    ("text", "status", "kind"),
    [
        ("Unsupported parameter: 'temperature'", 401, "rejected"),
        ("Unsupported parameter: 'temperature'", 500, "rejected"),
        ("Unsupported parameter: 'temperature'", 429, "rate_limited"),
        ("Unsupported parameter: 'temperature'", 404, "unknown_model"),
        ("Unsupported parameter: 'messages'", 400, "rejected"),
        ("Unsupported parameter: 'model'", 400, "rejected"),
        ("Unsupported parameter: 'tools'", 400, "rejected"),
        ("messages.0.content: Extra inputs are not permitted", 400, "rejected"),
        ("Unsupported parameter: 'frequency'", 400, "rejected"),
        ("the model refuses", 400, "rejected"),
        ("prompt is too long: 233153 tokens > 200000 maximum", 400, "context_overflow"),
        ("exceed context limit: 300000 + 10 > 200000", 400, "context_overflow"),
        ("", 400, "rejected"),
    ],
)  # fmt: skip
def test_what_is_no_rejection_of_a_parameter_is_left_alone(text, status, kind):
    given = CHAT | {"temperature": 0, "tools": [TOOL], "max_tokens": 10}
    assert find_corrections(Problem(kind, text, status=status), given, "openai_chat") == ()


_words = st.sampled_from(
    ["unsupported parameter: '", "extra inputs are not permitted", "'", 'unknown name "', '"',
     " at 'tools[0].", "max_tokens", ": ", "model", "messages", "messages.0.content", "tools", "[0]",
     "temperature", " is not supported", "use 'max_completion_tokens' instead", "thinking", "{", "}",
     "must be one of", "tool_choice", "additionalProperties", "9999999", " > "]
)  # fmt: skip


@given(st.lists(_words, max_size=12).map("".join), st.sampled_from(["openai_chat", "anthropic", "gemini"]))  # fmt: skip
def test_no_text_removes_the_conversation(text, api):
    given = CHAT | {"temperature": 0, "tools": [TOOL], "max_tokens": 10, "tool_choice": "required"}
    body, _ = sent_again(text, given, api)
    assert body["model"] == "m"
    assert USER in body["messages"]
    assert [tool["function"]["name"] for tool in body["tools"]] == ["f"]
