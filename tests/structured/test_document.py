"""Words, objects and the result as one JSON document, for providers that constrain whole answers."""

import json

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st
from tests.structured.play import ACTION, REPLY, SCHEMAS, Play, called, play, spoken
from tests.tables import every_row

from toolbridge.core.json import loads
from toolbridge.core.messages import Result
from toolbridge.structured import events as ev
from toolbridge.structured.document import MAX_PARTS, document_schema, text_key
from toolbridge.structured.limits import Limits
from toolbridge.wire.schema_fit import fit
from toolbridge.wire.schema_subsets import LLAMACPP, OLLAMA, XGRAMMAR

RESULT = ["result.begin", "result.delta", "result.end", "done"]
OBJECT = ["json.begin", "json.delta", "json.end"]
GRID = '{"rows":[[1,2],[3]],"late":"x"}'


def document(*parts: str, result: str = REPLY) -> str:
    return f'{{"parts": [{", ".join(parts)}], "result": {result}}}'


def native(*answers: object, **changes: object) -> Play:
    settled = {"tools": (), "document": True, "bound": True}
    return play(*answers, mode="native", **{**settled, **changes})


WORDS = '{"text":"Here \\u00e9 \\ud83d\\ude00 \\"it\\" is:\\n"}'
WHOLE = document(WORDS, f'{{"Action":{ACTION}}}', f'{{ "Grid" : {GRID} }}', '{"text":"Bye."}')


def test_parts_and_result_are_told_as_they_are_written():
    for cuts in ((), range(1, len(WHOLE)), range(1, len(WHOLE), 7)):
        done = native(spoken(WHOLE, cuts))
        assert done.names == ["text.delta", *OBJECT, *OBJECT, "text.delta", *RESULT]
        assert done.text == 'Here é 😀 "it" is:\nBye.'
        assert (done.chunks("O1"), done.chunks("O2"), done.chunks("R1")) == (ACTION, GRID, REPLY)
        assert {done.end(id).status for id in ("O1", "O2", "R1")} == {"valid"}
        assert done.conversation.first_try


@every_row("at", range(1, len(WHOLE) - 1, 3))
def test_every_cut_in_two_gives_the_same(at):
    assert native(spoken(WHOLE, (at,))).names == native(spoken(WHOLE)).names


@every_row(
    "text",
    [
        f"```json\n{document()}\n```",
        f"\n  {document()}",
        f'{{"result": {REPLY}, "parts": []}}',
        f'{{"parts":null,"other":[1,"}}"],"result":{REPLY}}}',
        f"{document()} and more",
        REPLY,
        f"```\n{REPLY}\n```",
    ],
)
def test_other_forms_of_the_document_have_the_result_too(text):
    for cuts in ((), range(1, len(text))):
        done = native(spoken(text, cuts))
        assert done.names == RESULT
        assert done.value("R1") == loads(REPLY)


def test_words_alone_are_text_and_the_result_is_asked_for():
    for text in ("Hello.", "`code` is text", "```python\nx\n```", "  "):
        for cuts in ((), range(1, len(text))):
            done = native(spoken(text, cuts), spoken(REPLY))
            assert done.text == text
            assert done.end("R1").status == "valid"
            assert done.requests[1].output.name == "AssistantReply"


def test_a_document_that_was_cut_is_repaired_frame_by_frame():
    text = WHOLE[: WHOLE.index('"late"')]
    done = native(spoken(text, stop="length"), spoken(REPLY), repairs=[GRID])
    assert done.codes == ["unclosed_frame"]
    assert [done.end(id).status for id in ("O1", "O2", "R1")] == ["valid", "repaired", "valid"]
    assert [request.output.name for request in done.repairs] == ["Grid"]
    assert (done.requests[1].tools, done.requests[1].output.name) == ((), "AssistantReply")


def test_a_document_without_a_result_is_completed():
    done = native('{"parts":[{"text":"Hm."}]}', REPLY)
    assert (done.text, done.end("R1").status) == ("Hm.", "valid")
    done = native('{"parts":[]}', "Hm.", repairs=[REPLY])
    assert (done.text, done.end("R1").status) == ("Hm.", "repaired")


def test_a_result_may_have_a_key_of_the_document():
    schemas = SCHEMAS.extended({"Sum": {"type": "object", "properties": {"result": {}}}})
    done = native("Hm.", '{"result": 3}', schemas=schemas, result="Sum")
    assert done.value("R1") == {"result": 3}


def test_an_object_of_no_schema_is_an_error_and_the_rest_goes_on():
    done = native(document('{"Nothing":{"a":1}}', f'{{"Action":{ACTION}}}'))
    assert done.codes == ["unknown_schema"]
    assert done.names[-4:] == RESULT


def test_optional_keys_that_are_null_are_left_out_and_that_is_a_step():
    done = native(document('{"Grid":{"rows":[],"late":null}}'))
    end = done.end("O1")
    assert (end.status, end.value) == ("healed", {"rows": []})
    assert end.steps[0].what == "null for an optional key removed"
    assert done.conversation.first_try


def test_limits_hold_for_each_frame():
    done = native(document(f'{{"Grid":{GRID}}}'), limits=Limits(depth=2, frame=100))
    assert done.codes == ["frame_too_deep"]
    assert done.end("O1").status == "degraded"


@given(st.text(max_size=30), st.integers(0, 60))
def test_any_words_arrive_as_they_are(words, at):
    for ascii in (True, False):
        text = document(json.dumps({"text": words}, ensure_ascii=ascii))
        done = native(spoken(text, (at, at + 1, at + 3)))
        assert done.text == words


def test_escapes_that_json_does_not_have_are_read_as_their_characters():
    text = document('{"text":"a\\q \\\\q \\ud83d! \\ud83d\\n"}')
    for cuts in ((), range(1, len(text))):
        assert native(spoken(text, cuts)).text == "aq \\q \ufffd! \ufffd\n"


@given(st.text(alphabet='{}[]",:\\u0dn1 aparts"result', max_size=40))
def test_no_text_breaks_it(text):
    whole = native(spoken('{"' + text), spoken(REPLY), repairs=[REPLY] * 4)
    cut = native(spoken('{"' + text, range(1, 60)), spoken(REPLY), repairs=[REPLY] * 4)
    assert whole.names[-1] == cut.names[-1] == "done"
    assert whole.text == cut.text
    assert whole.names == cut.names


# The requests.


def test_the_request_demands_the_document_and_describes_it():
    (request,) = native(document()).requests
    assert (request.output.name, request.tools) == ("document", ())
    assert request.output.checked
    kinds = request.output.schema["properties"]["parts"]["items"]["anyOf"]
    assert [next(iter(kind["properties"])) for kind in kinds] == [
        "text", "Action", "Grid", "Never", "List",
    ]  # fmt: skip
    assert request.output.schema["properties"]["parts"]["maxItems"] == MAX_PARTS
    system = request.system[0].text
    assert '{"text": "..."}' in system
    assert "Objects, by name and JSON Schema" in system


def test_without_a_constraint_objects_are_calls_and_repairs_free():
    done = native(spoken("x"), document=False, bound=False, structured=False, repairs=[REPLY])
    assert done.requests[0].tools[0].name == "write_Action"
    assert done.repairs[0].output is None


def test_repairs_are_constrained_in_sentinel_mode_too():
    done = play("Hello.", repairs=[REPLY], bound=True)
    assert done.requests[0].output is None
    assert done.repairs[0].output.name == "AssistantReply"


TREE = {
    "type": "object",
    "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["kids"],
}
LINKED = {
    "$ref": "#/$defs/Node",
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
}


def test_recursive_schemas_keep_their_references_inside_the_document():
    schema = document_schema({"Tree/1": TREE, "Linked": LINKED}, {"type": "integer"})
    validator = jsonschema_rs.Draft202012Validator(schema)
    good = {"parts": [{"Tree/1": {"kids": [{"kids": []}]}}, {"Linked": {"next": {}}}], "result": 1}
    assert validator.is_valid(good)
    assert not validator.is_valid({"parts": [{"Tree/1": {"kids": [{}]}}], "result": 1})
    assert not validator.is_valid({"parts": [{"Linked": {"next": 1}}], "result": 1})
    for subset in (LLAMACPP, OLLAMA, XGRAMMAR):
        assert jsonschema_rs.Draft202012Validator(fit(schema, subset).schema).is_valid(good)


def test_a_schema_may_be_called_text():
    assert text_key({"text"}) == "text_"
    (request,) = native(document(), objects=("Action",)).requests
    assert '{"text": "..."}' in request.system[0].text


# Tools before the schema.

SEARCH = ("places.search", '{"query":"pizza"}')


def first_tools(*answers: object, **changes: object) -> Play:
    return play(*answers, mode="native", bound=True, with_tools=False, document=True, **changes)


def test_tools_are_offered_without_the_schema_and_then_the_schema_without_tools():
    done = first_tools(called(SEARCH), spoken("I found it."), spoken(document()))
    offered, again, final = done.requests
    assert (offered.output, again.output) == (None, None)
    assert [tool.name for tool in offered.tools] == ["places.search", "bookings.create"]
    assert (final.tools, final.output.name) == ((), "document")
    assert final.turns[-1].role == "user"
    assert "Use no more tools" in final.turns[-1].content[-1].text
    assert final.turns[-2].content[0].text == "I found it."
    assert isinstance(final.turns[-3].content[0], Result)
    assert done.text == "I found it."
    assert done.end("R1").status == "valid"
    assert done.repairs == []
    assert done.conversation.first_try


def test_a_result_that_fits_needs_no_further_request():
    assert len(first_tools(called(SEARCH), spoken(document())).requests) == 2
    assert len(first_tools(spoken(REPLY)).requests) == 1
    done = first_tools(spoken(f"So: {REPLY}"))
    assert (len(done.requests), done.end("R1").status) == (1, "healed")


def test_the_last_answer_without_a_result_is_repaired_as_any_other():
    done = first_tools(spoken("Hm."), spoken("Hm!"), spoken("Hm?"), repairs=[REPLY])
    formats = [request.output and request.output.name for request in done.requests]
    assert formats == [None, "document", "AssistantReply"]
    assert done.end("R1").status == "repaired"


def test_a_local_server_has_no_words_in_its_documents():
    final = first_tools(spoken("Hm."), spoken(document())).requests[1]
    kinds = final.output.schema["properties"]["parts"]["items"]["anyOf"]
    assert "text" not in [next(iter(kind["properties"])) for kind in kinds]
    assert '{"text"' not in final.system[0].text


def test_too_many_calls_end_with_the_schema():
    done = first_tools(called(SEARCH, SEARCH), spoken(document()), max_tool_calls=1)
    assert done.rounds == [1]
    assert done.requests[1].output is not None
    assert isinstance(done.events[-1], ev.RunDone)
