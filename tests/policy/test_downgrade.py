"""What a second, different wording of a request can mend."""

from tests.tables import every_row

from toolbridge.core.messages import Problem, Request, Text, Thinking, Turn
from toolbridge.policy.downgrade import missing_feature, without_thoughts


@every_row(
    ("text", "kind", "lack"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", "rejected", "history"),
        ("The block is bound to a different conversation.", "rejected", "history"),
        ("messages.1.content.0.thinking: each thinking block must contain thinking", "rejected", "history"),
        ("Expected `thinking` or `redacted_thinking`, but found `tool_use`", "rejected", "history"),
        ("Function call is missing a thought_signature in functionCall parts", "rejected", "history"),
        ("The encrypted content for item rs_1 could not be verified.", "rejected", "history"),
        ("registry.ollama.ai/library/x:latest does not support tools", "unsupported", "tools"),
        ('"x" does not support thinking', "thinking_not_supported", "thinking"),
        ("temperature: must be below 1", "rejected", None),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "rejected", "tools"),
        ('No endpoints found that support tool use. Try disabling "question".', "rejected", "tools"),
        ("`tool calling` is not supported with this model", "rejected", "tools"),
        ("Function calling is not enabled for models/gemma-3-4b", "rejected", "tools"),
        ("Unsupported parameter: 'tools' is not supported with this model.", "rejected", "tools"),
        ("Overloaded", "overloaded", None),
    ],
)  # fmt: skip
def test_known_refusals_are_understood(text, kind, lack):
    assert missing_feature(Problem(kind, text, status=400)) == lack


def test_a_refusal_by_another_status_is_none():
    assert (
        missing_feature(Problem("rejected", "Invalid `signature` in `thinking` block", status=401))
        is None
    )


def test_thoughts_are_taken_out_and_said():
    turns = (
        Turn("user", (Text("a"),)),
        Turn("assistant", (Thinking("hm"), Text("b"))),
        Turn("assistant", (Thinking("only"),)),
    )
    request, losses = without_thoughts(Request("m", turns))
    assert request.turns == (Turn("user", (Text("a"),)), Turn("assistant", (Text("b"),)))
    assert [loss.what for loss in losses] == ["turns.thinking"]
    assert without_thoughts(request) == (request, ())
