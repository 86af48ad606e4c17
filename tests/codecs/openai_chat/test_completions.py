"""The chunks of `/v1/completions`."""

import json

from toolbridge.codecs.openai_chat.completions import CompletionEncoder, decode_completion
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext
from toolbridge.core.messages import Problem, TokenLogprob
from toolbridge.core.usage import Usage


def encoder(**fields) -> CompletionEncoder:
    body = json.dumps({"model": "m", "prompt": "Once", "stream": True, **fields}).encode()
    return CompletionEncoder(AnswerContext(decode_completion(body), 1700000000.5))


def chunks(pieces: list[bytes]) -> list:
    """Return the JSON of each event; `[DONE]` as it is."""
    found = [piece.decode().removeprefix("data: ").removesuffix("\n\n") for piece in pieces]
    return [text if text == "[DONE]" else json.loads(text) for text in found]


def texts(pieces: list[bytes]) -> list[tuple[str, str | None]]:
    choices = [chunk["choices"][0] for chunk in chunks(pieces)]
    return [(choice["text"], choice["finish_reason"]) for choice in choices]


def test_a_stream_has_text_an_end_and_done():
    writer = encoder()
    assert writer.feed(ev.Started("msg_1", "m")) == []
    [chunk] = chunks(writer.feed(ev.TextDelta(0, " upon")))
    assert chunk["object"] == "text_completion"
    assert (chunk["created"], chunk["model"]) == (1700000000, "m")
    assert chunk["choices"] == [
        {"text": " upon", "index": 0, "logprobs": None, "finish_reason": None}
    ]
    *end, done = writer.feed(ev.Finished("end"))
    assert texts(end) == [("", "stop")]
    assert chunks([done]) == ["[DONE]"]
    assert chunks(end)[0]["id"] == chunk["id"]
    assert writer.feed(ev.TextDelta(0, "more")) == writer.close() == []


def test_the_prompt_comes_first_where_it_is_asked_for():
    assert texts(encoder(echo=True).feed(ev.Started("msg_1", "m"))) == [("Once", None)]


def test_usage_is_sent_where_it_is_asked_for():
    writer = encoder(stream_options={"include_usage": True})
    assert writer.feed(ev.UsageReported(Usage(input=3, output=4))) == []
    _, counts, done = chunks(writer.feed(ev.Finished("length")))
    assert counts["choices"] == []
    assert (counts["usage"]["prompt_tokens"], counts["usage"]["completion_tokens"]) == (3, 4)
    assert done == "[DONE]"


def test_log_probabilities_have_the_place_of_their_token():
    writer = encoder(echo=True, logprobs=0)
    writer.feed(ev.Started("msg_1", "m"))
    offsets = []
    for token in (" upon", " a"):
        [chunk] = chunks(writer.feed(ev.LogprobsReported((TokenLogprob(token, -0.5),))))
        offsets += chunk["choices"][0]["logprobs"]["text_offset"]
    assert offsets == [4, 9]


def test_a_failure_is_the_last_event():
    writer = encoder()
    [chunk] = chunks(writer.feed(ev.Failed(Problem("overloaded", "too busy"))))
    assert chunk["error"]["message"] == "too busy"
    assert writer.feed(ev.Finished("end")) == []


def test_a_keep_alive_before_the_start_has_an_id_and_no_text():
    writer = encoder()
    [early] = chunks([writer.keep_alive()])
    assert early["choices"][0]["text"] == ""
    writer.feed(ev.Started("msg_1", "m"))
    [later] = chunks(writer.feed(ev.TextDelta(0, "x")))
    assert early["id"] == later["id"] != ""
