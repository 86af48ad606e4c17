from tests.tables import every_row

from toolbridge.codecs.gemini.encode_request import encode_request
from toolbridge.core.codec import Target
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Opaque,
    Reference,
    Request,
    Result,
    Text,
    Thinking,
    Turn,
)

OWN = (Opaque("gemini/google", "thought_signature", "c2ln"),)
ALIEN = (Opaque("anthropic", "signature", "abc"),)
SKIP = "skip_thought_signature_validator"
PNG = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}


def contents(*turns, origin="", model="gemini-3.1-pro"):
    request = Request(model="m", turns=turns, origin=origin)
    outgoing = encode_request(request, Target(model=model))
    return outgoing.body["contents"], [loss.what for loss in outgoing.losses]


def parts(*given, role="user", **choices):
    found, lost = contents(Turn(role, given), **choices)
    return (found[0]["parts"] if found else []), lost


@every_row(
    ("part", "expected"),
    [
        (Text("a"), {"text": "a"}),
        (Text("a", opaque=OWN), {"text": "a", "thoughtSignature": "c2ln"}),
        (Text("a", opaque=ALIEN), {"text": "a"}),
        (Thinking("t", OWN), {"text": "t", "thought": True, "thoughtSignature": "c2ln"}),
        (Thinking("", OWN), {"text": "", "thoughtSignature": "c2ln"}),
        (Image("AA==", "image/png"), PNG),
        (Image(url="data:image/png;base64,AA=="), PNG),
        (
            Image(url="https://x.org/a.png"),
            {"fileData": {"mimeType": "image/png", "fileUri": "https://x.org/a.png"}},
        ),
        (Image(url="https://x.org/a"), {"fileData": {"fileUri": "https://x.org/a"}}),
        (
            Document("AA==", "application/pdf"),
            {"inlineData": {"mimeType": "application/pdf", "data": "AA=="}},
        ),
        (Document(text="x", title="T", context="C"), {"text": "[document: T]\nC\nx"}),
        (Document(text="x"), {"text": "x"}),
        (Audio("AA==", "audio/wav"), {"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}),
        (Reference("f"), {"text": "Tool f is now available."}),
        (Foreign("gemini", "executableCode", {"executableCode": {}}), {"executableCode": {}}),
    ],
)
def test_a_part_is_written(part, expected):
    assert parts(part) == ([expected], [])


@every_row(
    ("part", "lost"),
    [
        (Thinking("t"), ""),
        (Thinking("t", ALIEN), ""),
        (Thinking("", ALIEN), ""),
        (Image(file_id="file_1"), ""),
        (Document(file_id="file_1"), ""),
        (Foreign("anthropic", "x", {}), ""),
        (Text("a", citations=({"url": "x"},)), ".citations"),
        (Document("AA==", "application/pdf", title="T"), ".title"),
        (Document("AA==", "application/pdf", context="C"), ".context"),
        (Image("AA==", "image/png", detail="high"), ".detail"),
    ],
)
def test_what_cannot_be_said_is_lost(part, lost):
    found, losses = parts(part, role="assistant")
    assert losses == [f"turns.0.content.0{lost}"]
    assert bool(found) == bool(lost)


def test_an_empty_turn_is_left_out():
    assert contents(Turn("assistant", ()), Turn("user", (Text("a"),)))[0] == [
        {"role": "user", "parts": [{"text": "a"}]}
    ]


def test_thoughts_of_a_client_of_gemini_are_its_own():
    assert parts(Thinking("t"), role="assistant", origin="gemini") == (
        [{"text": "t", "thought": True}],
        [],
    )


def test_the_detail_of_an_image_stays_with_clients_of_gemini():
    image = Image("AA==", "image/png", detail="low")
    level = {"mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}
    assert parts(image, origin="gemini") == ([PNG | level], [])


# ── calls ────────────────────────────────────────────────────────────────────


def signatures(*calls):
    found, _ = parts(*calls, role="assistant")
    return [part.get("thoughtSignature") for part in found if "functionCall" in part]


def test_only_the_first_call_of_a_turn_needs_a_signature():
    assert signatures(Call("1", "f"), Call("2", "f")) == [SKIP, None]
    assert signatures(Call("1", "f", opaque=OWN), Call("2", "f")) == ["c2ln", None]
    assert signatures(Text("x"), Call("1", "f", opaque=ALIEN), Call("2", "f", opaque=OWN)) == [
        SKIP,
        "c2ln",
    ]


def test_a_call_keeps_its_id_and_its_arguments():
    found, _ = parts(Call("toolu_1", "f", {"a": {"b": None}}), role="assistant")
    assert found[0]["functionCall"] == {"id": "toolu_1", "name": "f", "args": {"a": {"b": None}}}


def test_a_call_that_could_not_be_read_keeps_the_words_of_the_model():
    found, _ = parts(Call("1", "f", raw="{half"), role="assistant")
    assert found[0]["functionCall"]["args"] == {"raw": "{half"}


# ── results ──────────────────────────────────────────────────────────────────

ASKED = Turn("assistant", (Call("1", "f"), Call("2", "g")))


def responses(*results, **choices):
    found, lost = contents(ASKED, Turn("user", results), **choices)
    return found[1]["parts"], lost


def test_results_stand_in_the_order_of_their_calls_and_before_all_else():
    found, _ = responses(Text("x"), Result("2", (Text("b"),)), Result("1", (Text("a"),)))
    assert found == [
        {"functionResponse": {"id": "1", "name": "f", "response": {"output": "a"}}},
        {"functionResponse": {"id": "2", "name": "g", "response": {"output": "b"}}},
        {"text": "x"},
    ]


@every_row(
    ("result", "response"),
    [
        (Result("1"), {"output": ""}),
        (Result("1", is_error=True), {"error": ""}),
        (Result("1", (Text("a"), Text("b"))), {"output": "a\nb"}),
        (Result("1", (Text("bad"),), is_error=True), {"error": "bad"}),
        (Result("1", (Text('{"a":1}'),)), {"output": '{"a":1}'}),
        (Result("1", (Reference("h"),)), {"output": "Tool h is now available."}),
    ],
)
def test_a_result_is_an_output_or_an_error(result, response):
    found, _ = responses(result)
    assert found[0]["functionResponse"]["response"] == response


@every_row(
    ("text", "response"),
    [
        ('{"a":1}', {"a": 1}),
        ('{"a": 1}', {"output": '{"a": 1}'}),
        ('{"output":1}', {"output": '{"output":1}'}),
        ('{"error":"x"}', {"output": '{"error":"x"}'}),
        ("{}", {"output": "{}"}),
        ("{no", {"output": "{no"}),
    ],
)
def test_an_object_of_a_client_of_gemini_is_an_object_again(text, response):
    found, _ = responses(Result("1", (Text(text),)), origin="gemini")
    assert found[0]["functionResponse"]["response"] == response


def test_pictures_stand_in_the_result_where_the_model_takes_them_there():
    result = Result("1", (Text("see"), Image("AA==", "image/png")))
    (found,), _ = responses(result)
    assert found["functionResponse"]["parts"] == [PNG]


def test_pictures_follow_all_results_of_an_older_model():
    seen = Result("1", (Text("see"), Image("AA==", "image/png")))
    found, lost = responses(seen, Result("2"), Text("x"), model="gemini-2.5-pro")
    assert [next(iter(part)) for part in found] == [
        "functionResponse",
        "functionResponse",
        "text",
        "inlineData",
        "text",
    ]
    assert lost == []


def test_a_result_without_a_call_has_a_name_all_the_same():
    found, _ = parts(Result("9", (Text("x"),)))
    assert found[0]["functionResponse"]["name"] == "unknown"


def test_a_picture_that_is_lost_in_a_result_is_reported_there():
    _, lost = responses(Result("1", (Image(file_id="x"),)))
    assert lost == ["turns.1.content.0.content.0"]
