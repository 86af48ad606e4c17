from toolbridge.codecs.openai_chat.shapes import Counts
from toolbridge.codecs.openai_chat.usage import decode_counts, decode_usage, encode_usage
from toolbridge.core.usage import Usage

GIVEN = {
    "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": 0.5,
    "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 2, "accepted_prediction_tokens": 4},
}  # fmt: skip


def test_counts_may_be_missing():
    assert decode_counts(Counts()) == Usage()


def test_counts_of_the_providers_own_come_back_to_the_same_api():
    usage = decode_usage(GIVEN)
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning) == (7, 3, 5, 2)
    written = encode_usage(usage, 0)
    assert {name: written[name] for name in GIVEN} == GIVEN | {
        "prompt_tokens_details": GIVEN["prompt_tokens_details"] | {"cache_write_tokens": 0}
    }


def test_counts_of_another_api_are_not_written():
    usage = Usage(input=1, output=2, native={"anthropic": {"service_tier": "standard"}})
    assert "service_tier" not in encode_usage(usage, 0)


def test_counts_that_cannot_be_read_are_passed_over():
    usage = decode_usage({"prompt_tokens": {"odd": 1}, "completion_tokens": 5})
    assert (usage.input, usage.output) == (0, 5)
