"""Fields that several APIs have are carried; the others are lost in words that are true."""

from tests.tables import every_row

from toolbridge.core.messages import Request
from toolbridge.core.shared_fields import carry


def carried(origin, api, takes=None, **extra):
    fields, losses = carry(Request("m", origin=origin, extra=extra), api, takes)
    return fields, [(loss.what, loss.minor) for loss in losses]


@every_row(
    ("origin", "api", "extra", "fields", "lost"),
    [
        ("openai_chat", "openai_responses", {"verbosity": "low"}, {"text": {"verbosity": "low"}}, []),
        ("openai_responses", "openai_chat", {"text": {"verbosity": "low"}}, {"verbosity": "low"}, []),
        ("openai_responses", "openai_chat", {"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}, []),
        ("openai_chat", "anthropic", {"metadata": {"a": "b"}}, {}, [("metadata", True)]),
        ("openai_chat", "anthropic", {"service_tier": "default"}, {"service_tier": "standard_only"}, []),
        ("openai_chat", "anthropic", {"service_tier": "flex"}, {}, [("service_tier", True)]),
        ("openai_chat", "gemini", {"service_tier": "flex"}, {"serviceTier": "flex"}, []),
        ("anthropic", "openai_chat", {"service_tier": "standard_only"}, {"service_tier": "default"}, []),
        ("openai_chat", "ollama", {"verbosity": "low"}, {}, [("verbosity", False)]),
        ("openai_chat", "anthropic", {"logit_bias": {"1": 2}}, {}, [("logit_bias", False)]),
        ("gemini", "anthropic", {"generationConfig": {"thinkingConfig": {"new": 1}}}, {},
         [("generationConfig.thinkingConfig.new", False)]),
    ],
)  # fmt: skip
def test_what_the_target_has_is_carried(origin, api, extra, fields, lost):
    assert carried(origin, api, **extra) == (fields, lost)


def test_a_provider_that_does_not_take_a_field_is_not_sent_it():
    found = carried("openai_responses", "openai_chat", frozenset(), text={"verbosity": "low"})
    assert found == ({}, [("text.verbosity", False)])


@every_row(
    "extra",
    [
        {"stream_options": {"include_usage": True}},
        {"store": False},
        {"service_tier": "auto"},
        {"text": {"verbosity": "medium"}},
        {"truncation": "disabled"},
        {"systemInstruction": {"role": "user"}},
        {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}},
    ],
)
def test_what_the_gateway_acts_on_or_what_happens_anyway_is_no_loss(extra):
    assert carried("openai_chat", "anthropic", **extra)[1] == []
