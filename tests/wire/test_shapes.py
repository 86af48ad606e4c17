import msgspec
import pytest
from tests.tables import every_row

from toolbridge.core.errors import BrokenWire, MalformedRequest
from toolbridge.wire.shapes import (
    OpenUnion,
    Unknown,
    convert_request,
    decode_chunk,
    decode_request,
    leftovers,
    unknown_keys,
    unknown_names,
)


class Part(msgspec.Struct):
    pass


class Note(Part):
    text: str


class Number(Part):
    value: int


class Turn(msgspec.Struct):
    role: str
    parts: list[msgspec.Raw] = []


class Body(msgspec.Struct):
    turns: list[Turn]


class Piece(msgspec.Struct):
    text: str = ""
    part: msgspec.Raw = msgspec.Raw(b"null")


PARTS = OpenUnion({"note": Note, "number": Number})
BODIES = msgspec.json.Decoder(Body)
PIECES = msgspec.json.Decoder(Piece)
DEEP = b"[" * 100_000


def malformed(read):
    with pytest.raises(MalformedRequest) as caught:
        read()
    return caught.value.problem


@every_row("read", [PARTS.decode, PARTS.decode_chunk])
@every_row(
    ("raw", "member"),
    [
        (b'{"type":"note","text":"a","new":{"x":1}}', Note("a")),
        (b'{"text":"a","type":"note"}', Note("a")),
        (b'{"type":"number","value":1}', Number(1)),
        (b'{"type":"sound","x":[1]}', Unknown("sound", {"type": "sound", "x": [1]})),
        (b'{"x":1}', Unknown("", {"x": 1})),
    ],
)
def test_a_union_reads_what_it_knows_and_keeps_what_it_does_not(read, raw, member):
    assert read(raw) == member
    assert read(msgspec.Raw(raw)) == member


@every_row(
    ("raw", "where", "text"),
    [
        (b'{"type":"note"}', "parts.0.text", "field required"),
        (b'{"type":"note","text":1}', "parts.0.text", "Expected `str`, got `int`"),
        (b'{"type":1}', "parts.0.type", "Expected `str`, got `int`"),
        (b'"note"', "parts.0", "Expected `object`, got `str`"),
        (
            b'{"type":"note",',
            "parts.0",
            "the request body is not valid JSON: Input data was truncated",
        ),
        (b'{"type":"new","x":' + DEEP, "parts.0", "JSON is nested too deeply"),
    ],
)
def test_a_member_that_does_not_fit_is_found_by_its_path(raw, where, text):
    problem = malformed(lambda: PARTS.decode(raw, "parts.0"))
    assert (problem.where, problem.text) == (where, text)


@every_row("raw", [b'{"type":"note"}', b'"note"', b'{"type":"new","x":' + DEEP, b"{"])
def test_a_member_of_a_frame_that_does_not_fit_breaks_the_wire(raw):
    with pytest.raises(BrokenWire):
        PARTS.decode_chunk(raw)


@every_row(
    ("body", "where"),
    [
        (b'{"turns":[{"role":"a"},{"role":1}]}', "turns.1.role"),
        (b'{"turns":[{"parts":[]}]}', "turns.0.role"),
        (b'{"turns":{}}', "turns"),
        (b"{}", "turns"),
        (b"[]", ""),
    ],
)
def test_a_fault_in_a_request_is_found_by_its_path(body, where):
    assert malformed(lambda: decode_request(body, BODIES)).where == where


@every_row(
    "body",
    [b"", b"{", b"\xff", b'{"turns":[{"role":"\xff"}]}', b'{"x":' + DEEP],
)
def test_what_is_not_json_is_the_clients_fault(body):
    problem = malformed(lambda: decode_request(body, BODIES))
    assert "JSON" in problem.text
    problem.text.encode()


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"turns":[{"role":"\\ud800"}]}', "turns.0.role"),
        (b'{"turns":[],"x":{"y":["a","\\udc00"]}}', "x.y.1"),
        (b'{"turns":[],"x":[{"a\\ud800b":1}]}', "x.0.a\ufffdb"),
        (b'{"\\udc00":1,"turns":[]}', "\ufffd"),
    ],
)
def test_half_of_a_surrogate_pair_is_found_by_its_path(body, where):
    problem = malformed(lambda: decode_request(body, BODIES))
    assert problem.where == where
    assert "surrogate" in problem.text


def test_unknown_fields_of_a_request_are_passed_over():
    assert decode_request(b'{"new":1,"turns":[{"role":"a","x":{}}]}', BODIES) == Body([Turn("a")])


def test_what_no_shape_lists_is_left_over():
    assert leftovers(b'{"new":{"x":[1]},"role":"a","old":null}', Turn) == {
        "new": {"x": [1]},
        "old": None,
    }


def test_unknown_names_are_found_inside_of_objects_and_lists():
    class Outer(msgspec.Struct):
        turn: Turn
        turns: list[Turn]

    raw = b'{"a":1,"turn":{"role":"","b":2},"turns":[{"role":""},{"c":3},null,[]]}'
    assert unknown_names(raw, Outer) == ("a", "turn.b", "turns.1.c")
    assert unknown_names(b'{"turn":null,"turns":7}', Outer) == ()
    assert unknown_keys({"a": 1, "turn": {"role": "", "b": 2}}, Outer) == ("a", "turn.b")


@every_row(
    ("data", "text"),
    [
        (b'{"text":"a"}', "a"),
        (b'{"text":"\\ud83d"}', "\ud83d"),
        (b'{"text":"\\ude00","new":1}', "\ude00"),
        (b'{"text":"\\ud83d\\ude00"}', "\U0001f600"),
        (b'{"text":"a","new":"\\ud83d"}', "a"),
        (b'{"text":"\xff"}', "\ufffd"),
        ('{"text":"\u2028"}'.encode(), "\u2028"),
    ],
)
def test_a_frame_is_read_as_well_as_it_can_be(data, text):
    assert decode_chunk(data, PIECES).text == text


def test_a_half_pair_inside_a_raw_field_is_kept_for_the_next_reader():
    piece = decode_chunk(b'{"part":{"type":"note","text":"\\ud83d"}}', PIECES)
    assert PARTS.decode_chunk(piece.part) == Note("\ud83d")


@every_row(
    "data", [b"", b"{", b"[DONE]", b"<html>", b'{"text":1}', b'{"part":' + DEEP, b"1" * 5000]
)
def test_a_frame_that_cannot_be_read_breaks_the_wire(data):
    with pytest.raises(BrokenWire) as caught:
        decode_chunk(data, PIECES)
    assert len(caught.value.problem.text) < 1000


def test_what_was_parsed_before_is_read_by_the_same_rules():
    assert convert_request({"value": "5", "new": 1}, Number) == Number(5)
    with pytest.raises(MalformedRequest) as caught:
        convert_request({"value": []}, Number, "parts.0")
    assert caught.value.problem.where == "parts.0.value"
