"""Users read the fields that they sent, not ours."""

import json

from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.client_names import client_name, join_losses
from toolbridge.core.messages import Loss, Request


@every_row(
    ("api", "ours", "theirs"),
    [
        ("anthropic", "sampling.top_k", "top_k"),
        ("anthropic", "think.budget", "thinking.budget_tokens"),
        ("anthropic", "output", "output_config.format"),
        ("anthropic", "output.name", "output_config.format.name"),
        ("openai_chat", "think.effort", "reasoning_effort"),
        ("openai_chat", "tool_choice.parallel", "parallel_tool_calls"),
        ("openai_responses", "max_tokens", "max_output_tokens"),
        ("openai_responses", "user", "safety_identifier"),
        ("gemini", "sampling.top_k", "generationConfig.topK"),
        ("gemini", "tool_choice.mode", "toolConfig.functionCallingConfig.mode"),
        ("ollama", "sampling.min_p", "options.min_p"),
        ("ollama", "stop", "options.stop"),
        ("openai_chat", "unheard.of", "unheard.of"),
    ],
)
def test_a_setting_has_the_clients_name(api, ours, theirs):
    assert client_name(ours, Request("m"), codecs.load(api).field_names) == theirs


def test_a_part_has_the_path_at_which_it_stood():
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": "b"},
    ]  # fmt: skip
    codec = codecs.load("openai_chat")
    request = codec.decode_request(json.dumps({"model": "m", "messages": messages}).encode())
    names = codec.field_names
    # The user's next words stand in the turn of the results.
    assert client_name("turns.2.content.1", request, names) == "messages.3.content"
    assert client_name("turns.2.content.0.content.0.x", request, names) == "messages.2.content.0.x"
    assert client_name("turns.1.content.0", request, names) == "messages.1.tool_calls.0"
    assert client_name("turns.9", request, names) == "messages"


def test_one_reason_in_many_places_is_one_loss():
    many = [Loss(f"messages.{n}.content.0", "why") for n in range(3)]
    others = [Loss("seed", "why"), Loss("top_k", "why"), Loss("messages.0.content.0.x", "why")]
    assert [str(loss) for loss in join_losses([*many, *others])] == [
        "messages.0.content.0: why (3 times)",
        "seed: why",
        "top_k: why",
        "messages.0.content.0.x: why",
    ]
