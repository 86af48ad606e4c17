import json

from toolbridge import codecs
from toolbridge.core.codec import Target
from toolbridge.core.json import WrittenList, dump_bytes
from toolbridge.core.messages import Request, Text, Turn
from toolbridge.core.written_list import preceded, wholly_written, written_list


def test_the_json_of_a_written_list_is_copied():
    values = written_list([{"a": 1}, {"b": "é"}, {"c": 3}], 2, b"WRITTEN")
    assert dump_bytes({"x": values}) == b'{"x":[WRITTEN,{"c":3}]}'
    assert dump_bytes({"x": preceded([0, 1], values)}) == b'{"x":[0,1,WRITTEN,{"c":3}]}'


def test_a_written_list_is_a_list_for_everything_else():
    values = preceded([0], written_list([{"a": 1}], 1, b"WRITTEN"))
    assert values == [0, {"a": 1}]
    assert isinstance(values, list)
    assert json.dumps({"x": values}) == '{"x": [0, {"a": 1}]}'
    assert dump_bytes(values) == b'[0,{"a":1}]'


def test_a_changed_copy_is_encoded_as_it_is():
    values = written_list([1, 2], 2, b"WRITTEN")
    for changed in ([*values, 3], values[:1], values.copy(), preceded([0], [*values])):
        assert type(changed) is list
        assert dump_bytes({"x": changed}) == json.dumps({"x": changed}).replace(" ", "").encode()


def test_a_long_list_is_written_and_a_short_one_is_not():
    long = wholly_written(["x" * 5000, {"a": None}])
    assert isinstance(long, WrittenList)
    assert json.loads(dump_bytes({"x": long})) == {"x": [*long]}
    for other in ([], ["short"], ["\ud800" * 5000]):
        assert wholly_written(other) is other


def test_lone_surrogates_in_a_long_conversation_are_replaced():
    roles = ("user", "assistant")
    for at in (2, 11):
        texts = ["x\ud800" if number == at else "x" for number in range(12)]
        turns = tuple(Turn(roles[n % 2], (Text(text),)) for n, text in enumerate(texts))
        sent = codecs.load("ollama").encode_request(Request("m", turns), Target(model="m"))
        contents = [message["content"] for message in json.loads(dump_bytes(sent.body))["messages"]]
        assert contents == ["x\ufffd" if number == at else "x" for number in range(12)]
