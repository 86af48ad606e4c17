"""A web page that an answer cites: read in every API, written in every API, streamed and whole."""

import json

from tests.properties.subjects import ASKED, decoded, encoded
from tests.properties.test_losses import losses
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.fold import collect

URL, TITLE = "https://example.org/bern", "Bern"
PASSAGE = "Bern is the capital."
TEXT = f"Grüße! {PASSAGE} 😀"
START = TEXT.index(PASSAGE)
END = START + len(PASSAGE)
BYTES = (len(TEXT[:START].encode()), len(TEXT[:END].encode()))

FLAT = {"type": "url_citation", "start_index": START, "end_index": END, "url": URL, "title": TITLE}
NESTED = {k: v for k, v in FLAT.items() if k != "type"}
GROUNDING = {
    "groundingChunks": [{"web": {"uri": URL, "title": TITLE}}],
    "groundingSupports": [
        {"segment": {"startIndex": BYTES[0], "endIndex": BYTES[1], "text": PASSAGE},
         "groundingChunkIndices": [0]},
    ],
}  # fmt: skip
LOCATION = {
    "type": "web_search_result_location", "url": URL, "title": TITLE, "encrypted_index": "Eo8B",
    "cited_text": "Bern, the capital of Switzerland",
}  # fmt: skip

WHOLE = {
    "anthropic": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [
            {"type": "text", "text": TEXT[:START]},
            {"type": "text", "text": PASSAGE, "citations": [LOCATION]},
            {"type": "text", "text": TEXT[END:]},
        ],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "openai_chat": {
        "id": "chatcmpl-1", "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": TEXT,
            "annotations": [{"type": "url_citation", "url_citation": NESTED}]}}],
    },
    "openai_responses": {
        "id": "resp_1", "model": "m", "status": "completed",
        "output": [{"type": "message", "id": "msg_1", "role": "assistant", "content": [
            {"type": "output_text", "text": TEXT, "annotations": [FLAT]}]}],
    },
    "gemini": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": TEXT}]}, "index": 0,
                        "finishReason": "STOP", "groundingMetadata": GROUNDING}],
    },
}  # fmt: skip
SOURCES = list(WHOLE)


def message_of(source: str):
    return collect(decoded(codecs.load(source), [json.dumps(WHOLE[source]).encode()]))


def written(source: str, target: str) -> dict:
    return json.loads(codecs.load(target).encode_message(message_of(source), ASKED))


@every_row("source", SOURCES)
def test_chat_gets_an_annotation_on_the_passage(source):
    said = written(source, "openai_chat")["choices"][0]["message"]
    assert said["content"] == TEXT
    assert said["annotations"] == [{"type": "url_citation", "url_citation": NESTED}]


@every_row("source", SOURCES)
def test_responses_gets_an_annotation_on_the_passage(source):
    parts = [
        part for item in written(source, "openai_responses")["output"] for part in item["content"]
    ]
    cited = [(part["text"], one) for part in parts for one in part["annotations"]]
    assert "".join(part["text"] for part in parts) == TEXT
    [(text, one)] = cited
    assert text[one["start_index"] : one["end_index"]] == PASSAGE
    assert (one["type"], one["url"], one["title"]) == ("url_citation", URL, TITLE)


@every_row("source", SOURCES)
def test_gemini_gets_its_grounding_in_bytes(source):
    assert written(source, "gemini")["candidates"][0]["groundingMetadata"] == GROUNDING


@every_row("source", SOURCES)
def test_anthropic_gets_the_page_on_the_text(source):
    blocks = written(source, "anthropic")["content"]
    [block] = [block for block in blocks if block.get("citations")]
    assert PASSAGE in block["text"]
    [one] = block["citations"]
    if source == "anthropic":
        assert one == LOCATION
    assert (one["type"], one["url"], one["title"]) == (LOCATION["type"], URL, TITLE)
    assert isinstance(one["encrypted_index"], str)
    assert isinstance(one["cited_text"], str)


@every_row("target", SOURCES)
@every_row("source", SOURCES)
def test_a_stream_cites_what_the_whole_answer_cites(source, target):
    codec = codecs.load(source)
    events = decoded(codec, [json.dumps(WHOLE[source]).encode()])
    streamed = collect(decoded(codecs.load(target), [encoded(codecs.load(target), events)]))
    whole = collect(decoded(codecs.load(target), [json.dumps(written(source, target)).encode()]))
    assert [p.citations for p in streamed.content] == [p.citations for p in whole.content]
    assert any(part.citations for part in streamed.content)


@every_row("source", SOURCES)
def test_only_ollama_loses_a_link(source):
    found = losses(codecs.load(source), json.dumps(WHOLE[source]).encode())
    assert found == {"ollama": {"answer.citations"}}


def test_a_citation_of_a_document_is_lost_where_no_such_thing_is():
    page = {"type": "page_location", "document_index": 0, "start_page_number": 1,
            "end_page_number": 2, "cited_text": "x", "document_title": "d"}  # fmt: skip
    reply = WHOLE["anthropic"] | {"content": [{"type": "text", "text": "x", "citations": [page]}]}
    found = losses(codecs.load("anthropic"), json.dumps(reply).encode())
    assert found == {api: {"answer.citations"} for api in codecs.names() if api != "anthropic"}


def test_a_link_of_ours_is_not_sent_back_to_anthropic():
    blocks = written("gemini", "anthropic")["content"]
    request = {"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": blocks + WHOLE["anthropic"]["content"]},
        {"role": "user", "content": "y"},
    ]}  # fmt: skip
    [_, turn, _] = codecs.load("anthropic").decode_request(json.dumps(request).encode()).turns
    assert [part.citations for part in turn.content if part.citations] == [(LOCATION,)]


def test_sources_that_come_with_a_signature_belong_to_the_text_before_it():
    frames = [
        {"candidates": [{"content": {"parts": [{"text": TEXT[:START]}]}, "index": 0}]},
        {"candidates": [{"content": {"parts": [{"text": TEXT[START:]}]}, "index": 0}]},
        {"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "c2ln"}]},
                         "index": 0, "finishReason": "STOP", "groundingMetadata": GROUNDING}]},
    ]  # fmt: skip
    data = b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames)
    message = collect(decoded(codecs.load("gemini"), [data]))
    [text] = [part for part in message.content if getattr(part, "citations", ())]
    assert text.citations[0]["start_index"] == START
    assert message.losses == ()


def test_sources_without_a_text_are_a_loss():
    call = {"functionCall": {"name": "f", "args": {}}}
    reply = {"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP",
                             "groundingMetadata": GROUNDING}]}  # fmt: skip
    message = collect(decoded(codecs.load("gemini"), [json.dumps(reply).encode()]))
    assert [loss.what for loss in message.losses] == ["answer.citations"]
