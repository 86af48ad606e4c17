"""Log probabilities: read and written by every API that has them, streamed and whole."""

import json

from tests.properties.subjects import ASKED, decoded, encoded
from tests.properties.test_losses import losses
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import TokenLogprob

OTHERS = [{"token": "No", "logprob": -2.5, "bytes": [78, 111]}]
LISTED = [
    {"token": "Yes", "logprob": -0.25, "bytes": [89, 101, 115], "top_logprobs": OTHERS},
    {"token": "!", "logprob": -0.5, "bytes": [33], "top_logprobs": []},
]
GEMINI = {
    "chosenCandidates": [
        {"token": "Yes", "logProbability": -0.25}, {"token": "!", "logProbability": -0.5},
    ],
    "topCandidates": [{"candidates": [{"token": "No", "logProbability": -2.5}]}, {"candidates": []}],
}  # fmt: skip
WHOLE = {
    "openai_chat": {"id": "c", "model": "m", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes!"},
         "logprobs": {"content": LISTED, "refusal": None}}]},
    "openai_responses": {"id": "resp_1", "status": "completed", "model": "m", "output": [
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [
            {"type": "output_text", "text": "Yes!", "annotations": [], "logprobs": LISTED}]}]},
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes!"}]},
                               "finishReason": "STOP", "logprobsResult": GEMINI}]},
    "ollama": {"model": "m", "message": {"role": "assistant", "content": "Yes!"}, "done": True,
               "done_reason": "stop", "logprobs": LISTED},
}  # fmt: skip
APIS = list(WHOLE)


def likely(message):
    """Tokens and their numbers; Gemini has no bytes."""
    return [(t.token, t.logprob, [(o.token, o.logprob) for o in t.top]) for t in message.logprobs]


EXPECTED = [("Yes", -0.25, [("No", -2.5)]), ("!", -0.5, [])]


def read(api: str, body) -> object:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return collect(decoded(codecs.load(api), [data]))


@every_row("target", APIS)
@every_row("source", APIS)
def test_log_probabilities_are_carried(source, target):
    message = read(source, WHOLE[source])
    assert likely(message) == EXPECTED
    codec = codecs.load(target)
    assert likely(read(target, codec.encode_message(message, ASKED))) == EXPECTED
    events = decoded(codecs.load(source), [json.dumps(WHOLE[source]).encode()])
    streamed = read(target, encoded(codec, events))
    assert likely(streamed) == EXPECTED
    assert streamed.text == "Yes!"


@every_row("source", APIS)
def test_anthropic_alone_loses_them(source):
    found = losses(codecs.load(source), json.dumps(WHOLE[source]).encode())
    assert found == {"anthropic": {"answer.logprobs"}}


def test_chat_streams_them_as_they_come():
    draft = Draft(Ids("x"))
    encoder = codecs.load("openai_chat").stream_encoder(ASKED)
    events = draft.text("Yes") + draft.logprobs((TokenLogprob("Yes", -0.25),))
    chunks = [json.loads(piece[6:]) for event in events for piece in encoder.feed(event)]
    assert chunks[-1]["choices"][0]["logprobs"]["content"][0]["token"] == "Yes"


def test_two_texts_of_responses_have_their_own():
    draft = Draft(Ids("x"))
    events = draft.text("Yes", 0) + draft.logprobs((TokenLogprob("Yes", -0.25),)) + draft.end(0)
    events += draft.text("!", 1) + draft.logprobs((TokenLogprob("!", -0.5),)) + draft.end(1)
    events += draft.finish("end")
    codec = codecs.load("openai_responses")
    whole = json.loads(codec.encode_message(collect(events), ASKED))
    stream = encoded(codec, events).decode().split("\n")
    last = json.loads(
        next(line for line in stream if '"response.completed"' in line and "data" in line)[6:]
    )
    for reply in (whole, last["response"]):
        parts = [part for item in reply["output"] for part in item["content"]]
        assert [[t["token"] for t in p["logprobs"]] for p in parts] == [["Yes"], ["!"]]
