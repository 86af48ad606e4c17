"""Text to events: what counts as a call, what stays text, and when it is said."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.cases import OWN, load, tools_of
from tests.properties.grammar import check
from tests.tables import every_row
from tests.work import calls_made

from toolbridge.core import events as ev
from toolbridge.core.errors import ConfigError
from toolbridge.core.fold import collect
from toolbridge.core.messages import Tool
from toolbridge.dialects import load as load_dialect
from toolbridge.dialects import names
from toolbridge.dialects.reader import Reading, TextReader, read_text

FILE = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "lines": {"type": "array"}},
}
TOOLS = [
    Tool("get_weather", schema={"type": "object", "properties": {"city": {"type": "string"}}}),
    Tool("read_file", schema=FILE),
]


KIMI_K3 = (
    '<|open|>tools<|sep|><|open|>call tool="get_weather"<|sep|>'
    '<|open|>argument key="city" type="string"<|sep|>'
)
JSON_CALL = '{"name": "get_weather", "arguments": {"city": "Rome"}}'


def spoken(*pieces, dialect="hermes_json", tools=TOOLS):
    """Feed the pieces one by one; return what each of them brought, and the end."""
    reader = TextReader(tools, dialect=dialect)
    return [*(reader.feed(piece) for piece in pieces), reader.close()]


def texts(events):
    return "".join(event.text for event in events if isinstance(event, ev.TextDelta))


def calls(events):
    return [event.call for event in events if isinstance(event, ev.CallEnd)]


def flat(said):
    return [event for events in said for event in events]


@pytest.mark.req("CB-30")
class TestTheParserOfToolCallTags:
    """The twelve cases of the first requirement document; reset is a new reader, flush is close."""

    def test_plain_text_passes_token_by_token(self):
        said = spoken("Hello", " world")
        assert [texts(events) for events in said] == ["Hello", " world", ""]

    def test_a_whole_call_in_one_token_is_a_call(self):
        text = '<tool_call>\n{"name":"get_weather","arguments":{"city":"London"}}\n</tool_call>'
        assert calls(flat(spoken(text)))[0].arguments == {"city": "London"}

    def test_a_call_split_across_tokens_is_one_call(self):
        pieces = (
            "<tool",
            "_call>",
            '\n{"name":"read_file"',
            ',\n"arguments":{"path":"/tmp"}}',
            "\n</tool_call>",
        )
        found = calls(flat(spoken(*pieces)))
        assert [(call.name, call.arguments) for call in found] == [("read_file", {"path": "/tmp"})]

    def test_text_before_a_call_comes_first(self):
        events = flat(spoken("Let me read that. ", '<tool_call>{"name":"read_file"}</tool_call>'))
        kinds = [type(e) for e in events if isinstance(e, ev.TextEnd | ev.CallEnd)]
        assert kinds == [ev.TextEnd, ev.CallEnd]

    def test_text_after_a_call_follows_it(self):
        events = flat(spoken('<tool_call>{"name":"read_file"}</tool_call>', " Done."))
        assert texts(events) == " Done."
        assert isinstance(events[-2], ev.TextEnd)

    def test_calls_in_sequence_are_several_calls(self):
        one = '<tool_call>{"name":"read_file","arguments":{"path":"/a"}}</tool_call>'
        two = '<tool_call>{"name":"get_weather","arguments":{"city":"Rome"}}</tool_call>'
        found = calls(flat(spoken(one, two)))
        assert [call.name for call in found] == ["read_file", "get_weather"]
        assert found[0].id != found[1].id

    def test_a_lone_less_than_sign_is_text(self):
        assert texts(flat(spoken("x ", "<", " y"))) == "x < y"

    def test_a_false_start_of_the_tag_is_text(self):
        said = spoken("<tool", "s are useful")
        assert texts(said[0]) == ""
        assert texts(said[1]) == "<tools are useful"

    def test_malformed_json_between_the_tags_stays_text(self):
        text = "<tool_call>\nnot valid json\n</tool_call>"
        events = flat(spoken(text))
        assert texts(events) == text
        assert calls(events) == []

    @pytest.mark.parametrize("key", ["arguments", "parameters"])
    def test_arguments_may_be_called_parameters(self, key):
        text = f'<tool_call>{{"name":"get_weather","{key}":{{"city":"Rome"}}}}</tool_call>'
        assert calls(flat(spoken(text)))[0].arguments == {"city": "Rome"}

    def test_a_new_reader_knows_nothing_of_the_last_one(self):
        TextReader(TOOLS, dialect="hermes_json").feed("<tool_call>")
        assert texts(flat(spoken("normal text"))) == "normal text"

    def test_the_end_releases_what_was_held(self):
        said = spoken("<tool")
        assert texts(said[0]) == ""
        assert texts(said[-1]) == "<tool"


@pytest.mark.req("CB-31")
@pytest.mark.parametrize("dialect", ["hermes_json", "auto"])
def test_an_end_tag_inside_a_string_does_not_end_the_call(dialect):
    body = json.dumps({"name": "get_weather", "arguments": {"city": "a </tool_call> b"}})
    reading = read_text(f"<tool_call>{body}</tool_call> Done.", TOOLS, dialect=dialect)
    assert reading.calls[0].arguments == {"city": "a </tool_call> b"}
    assert reading.content == " Done."


@pytest.mark.req("CB-34")
@every_row("dialect", ["auto", "hermes_json", "kimi_k2", "qwen3_xml"])
def test_without_tools_a_call_is_text(dialect):
    text = 'So: <tool_call>{"name":"read_file","arguments":{}}</tool_call>'
    assert read_text(text, [], dialect=dialect) == Reading(content=text)


def test_arguments_go_out_as_they_come():
    head = '<tool_call>{"name": "get_weather", "arguments": {"city": "'
    said = spoken(head, "Par", "is", '"}}</tool_call>')
    pieces = ["".join(e.json for e in events if isinstance(e, ev.CallDelta)) for events in said]
    assert pieces == ['{"city": "', "Par", "is", '"}', ""]


@every_row(
    ("dialect", "before"),
    [
        ("qwen3_xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\n"),
        ("glm45", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>"),
        ("minimax_m2", '<minimax:tool_call><invoke name="get_weather"><parameter name="city">'),
        ("gemma4", '<|tool_call>call:get_weather{city:<|"|>'),
        ("pythonic", '[get_weather(city="'),
        ("kimi_k3", KIMI_K3),
    ],
)
def test_a_text_argument_goes_out_before_its_end_is_seen(dialect, before):
    said = spoken(before, "Paris and", " more", dialect=dialect)
    deltas = [e.json for e in said[1] if isinstance(e, ev.CallDelta)]
    assert "".join(deltas).endswith("Paris and")


def test_a_number_waits_until_it_is_whole():
    tools = [Tool("f", schema={"properties": {"n": {"type": "integer"}}})]
    said = spoken(
        "<tool_call><function=f><parameter=n>", "1", "2", "</parameter></function>",
        dialect="qwen3_xml", tools=tools,
    )  # fmt: skip
    assert not any(isinstance(e, ev.CallDelta) for e in said[1] + said[2])
    assert calls(flat(said))[0].arguments == {"n": 12}


@every_row("case", load(OWN), ids=lambda case: case["id"])
def test_joined_deltas_are_the_arguments(case):
    reader = TextReader(tools_of(case), dialect=case["dialect"])
    events = reader.feed(case["input"]) + reader.close()
    check(events)
    for end in (event for event in events if isinstance(event, ev.CallEnd)):
        deltas = [e.json for e in events if isinstance(e, ev.CallDelta) and e.index == end.index]
        if end.call.raw:
            assert "".join(deltas) == end.call.raw
        else:
            assert json.loads("".join(deltas)) == end.call.arguments


@every_row("name", ["GET_WEATHER", "get-weather", "functions.get_weather", "ns:get_weather"])
def test_a_name_matches_without_case_or_namespace(name):
    text = f'<tool_call>{{"name":"{name}","arguments":{{}}}}</tool_call>'
    assert read_text(text, TOOLS).calls[0].name == "get_weather"


def test_a_name_that_nobody_offers_is_text():
    text = '<tool_call>{"name":"rm_rf","arguments":{}}</tool_call>'
    assert read_text(text, TOOLS) == Reading(content=text)


@every_row(
    "text",
    [
        "Agents wrap calls in <tool_call> tags. That is all.",
        "Write `<tool_call>` and then JSON.",
        "Thoughts stand in `<think>` and `</think>` tags.",
        f"Example:\n```xml\n<tool_call>\n{JSON_CALL}\n</tool_call>\n```\nThat was it.",
        f"Example:\n```json\n{JSON_CALL}\n```\n",
        'A user: {"name": "read_file"}',
        'Data: {"result": {"name": "read_file", "arguments": {}}}',
        "The marker is <function=read_file> here.",
        "See [the docs](https://example.org) and [1].",
        "a <invoke b",
        "Use <parameter=path> for the path.",
    ],
)
def test_code_and_mentions_stay_text(text):
    assert read_text(text, TOOLS) == Reading(content=text)


def test_a_call_inside_of_data_is_data():
    text = 'So: {"result": {"name": "read_file", "arguments": {}}} and [{"a": "<tool_call>"}]'
    assert read_text(text, TOOLS, dialect="bare_json") == Reading(content=text)


def test_without_its_wrapper_a_call_needs_an_offered_name():
    text = '<invoke name="read_file"></invoke>'
    assert read_text(text, None, dialect="minimax_m2") == Reading(content=text)
    assert read_text(text, TOOLS, dialect="minimax_m2").calls[0].name == "read_file"


def test_a_call_after_a_fenced_example_is_still_a_call():
    call = '<tool_call>{"name":"read_file","arguments":{}}</tool_call>'
    reading = read_text(f"```\n{call}\n```\n{call}", TOOLS)
    assert reading.content == f"```\n{call}\n```\n"
    assert len(reading.calls) == 1


def test_one_bad_call_does_not_spoil_the_next():
    text = '<tool_call>{"name": oops}</tool_call><tool_call>{"name":"read_file"}</tool_call>'
    reading = read_text(text, TOOLS)
    assert [call.name for call in reading.calls] == ["read_file"]
    assert reading.content == '<tool_call>{"name": oops}</tool_call>'


def test_a_call_that_was_cut_off_is_never_whole():
    for dialect in names():
        written = load_dialect(dialect).render.calls([Whole])
        for size in range(1, len(written)):
            reader = TextReader(TOOLS, dialect=dialect)
            for call in collect(reader.feed(written[:size]) + reader.close("length")).calls:
                assert call.raw or call.arguments == Whole.arguments, (dialect, written[:size])


Whole = read_text(
    '{"name": "read_file", "arguments": {"path": "a.md", "lines": [1, 2]}}',
    TOOLS,
    dialect="bare_json",
).calls[0]


def test_broken_json_is_delivered_as_it_came():
    text = '<tool_call>{"name":"read_file","arguments":{"path": "a"b"}}</tool_call> Done.'
    reading = read_text(text, TOOLS)
    assert reading.calls[0].raw == '{"path": "a"b"}}'
    assert reading.content == " Done."


class TestThoughts:
    def test_a_draft_in_a_closed_thought_is_thought(self):
        call = '<tool_call>{"name":"read_file"}</tool_call>'
        reading = read_text(f"<think>Maybe {call}?</think>No.", TOOLS)
        assert reading == Reading("No.", f"Maybe {call}?")

    def test_a_call_in_a_thought_that_never_closes_is_a_call(self):
        reading = read_text('<think>I read. <tool_call>{"name":"read_file"}</tool_call>', TOOLS)
        assert reading.reasoning == "I read."
        assert [call.name for call in reading.calls] == ["read_file"]

    def test_a_call_before_a_closer_that_nothing_follows_is_a_call(self):
        text = '<think>I read. <tool_call>{"name":"read_file"}</tool_call>\n</think>\n'
        assert [call.name for call in read_text(text, TOOLS).calls] == ["read_file"]

    def test_a_thought_opened_by_the_prompt_is_a_thought(self):
        assert read_text("Hm.</think>Yes.", TOOLS, reasoning_open=True) == Reading("Yes.", "Hm.")

    def test_white_space_around_a_thought_is_markup(self):
        assert read_text("<think>\nHm.\n</think>\n\nYes.\n", TOOLS) == Reading("Yes.\n", "Hm.")

    def test_an_opener_that_the_model_repeats_means_nothing(self):
        text = "<think>Hm.</think>Yes."
        assert read_text(text, TOOLS, reasoning_open=True) == Reading("Yes.", "Hm.")

    def test_the_end_of_the_prompt_tells_whether_a_thought_is_open(self):
        answer = Reading("Yes.", "Hm.")
        assert read_text("Hm.</think>Yes.", TOOLS, reasoning_open="bot\n<think>\n") == answer
        assert read_text("Yes.", TOOLS, reasoning_open="<think></think>") == Reading("Yes.")

    def test_an_opener_in_words_belongs_to_the_thought(self):
        prompt = "\nHere are my reasoning steps:\n"
        text = "Hm.\n[BEGIN FINAL RESPONSE]\nYes."
        reading = read_text(text, TOOLS, dialect="apriel", reasoning_open=prompt)
        assert reading == Reading("Yes.", "Here are my reasoning steps:\nHm.")

    def test_a_thought_in_the_text_begins_where_the_prompt_began_it(self):
        reading = read_text("Hm.</think>Yes.", TOOLS, reasoning_open="<think>\n", thoughts=False)
        assert reading == Reading("<think>\nHm.</think>Yes.")

    def test_unwanted_thoughts_are_left_out(self):
        text = "<think>Hm.</think>Yes."
        assert read_text(text, TOOLS, thoughts=None) == Reading("Yes.")
        assert read_text("</think>Yes.", TOOLS, thoughts=None) == Reading("</think>Yes.")

    def test_a_mark_that_a_thought_only_speaks_of_stays_thought(self):
        text = "<think>A <tool_call> is a tag.\n<tool_call>read_file</tool_call>"
        reading = read_text(text, TOOLS)
        assert reading.reasoning == "A <tool_call> is a tag."
        assert [call.name for call in reading.calls] == ["read_file"]

    def test_thoughts_may_stay_in_the_text(self):
        text = "<think>Hm.</think>Yes."
        assert read_text(text, TOOLS, thoughts=False) == Reading(text)


class TestReAct:
    CALL = 'Action: read_file\nAction Input: {"path": "a"}'

    def test_the_line_before_an_action_belongs_to_it(self):
        reading = read_text(f"Thought: I read.\n{self.CALL}", TOOLS, dialect="react")
        assert (reading.content, reading.reasoning) == ("", "")
        assert reading.calls[0].arguments == {"path": "a"}

    def test_any_other_thought_is_a_thought(self):
        text = "Thought: I know.\nFinal Answer: 4"
        assert read_text(text, TOOLS, dialect="react") == Reading("Final Answer: 4", "I know.")


def test_results_that_the_model_makes_up_are_no_text():
    outputs = "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>22<｜tool▁output▁end｜>"
    end = "<｜tool▁outputs▁end｜>"
    assert read_text(f"A{outputs}{end}B", TOOLS, dialect="deepseek_v3") == Reading("AB")
    assert read_text(f"A{outputs}", TOOLS, dialect="deepseek_v3") == Reading("A22")


@every_row(
    ("dialect", "text", "content"),
    [
        ("deepseek_dsml_v32", "Yes.\n<｜DSML｜function_calls", "Yes.\n"),
        ("muse_atem", " to=user<|message|>Yes.<|eo", "Yes."),
        ("hermes_json", "A <tool", "A <tool"),
        ("hermes_json", "A <", "A <"),
    ],
)
def test_half_a_mark_at_the_end_is_no_text_once_it_is_certain(dialect, text, content):
    assert read_text(text, TOOLS, dialect=dialect).content == content


def test_text_before_the_frames_is_said():
    text = "so <|odd|> is it <|channel|>final<|message|>Yes.<|end|>"
    assert read_text(text, TOOLS, dialect="harmony").content == "so <|odd|> is it Yes."


def test_a_name_without_arguments_is_no_sentence():
    text = "[TOOL_CALLS] not json at all"
    assert read_text(text, None, dialect="mistral_args") == Reading(text)


def test_a_tag_may_lack_its_bracket():
    text = "<tool_call>\n<function=read_file\n<parameter=path>\na\n</parameter>\n</function>"
    assert read_text(text, TOOLS).calls[0].arguments == {"path": "a"}


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("a <parameter=days> b", {"city": "a <parameter=days> b"}),
        ("a\n<parameter=other>3", {"city": "a\n<parameter=other>3"}),
        ("a\n<parameter=days>3", {"city": "a\n", "days": 3}),
    ],
)
def test_the_tag_of_a_parameter_in_a_value_opens_one_on_a_line_of_its_own_if_it_is_declared(
    written, arguments
):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    }
    text = f"<tool_call>\n<function=f>\n<parameter=city>{written}</parameter>\n</function>\n</tool_call>"
    reading = read_text(text, [Tool("f", schema=schema)], dialect="qwen3_xml")
    assert [call.arguments for call in reading.calls] == [arguments]


@pytest.mark.parametrize(
    ("name", "raw"), [("city", '{"city": "12'), ("either", '{"either": "12'), ("days", '{"days": ')]
)
def test_a_value_that_is_cut_off_is_never_a_whole_one(name, raw):
    kinds = {"city": "string", "either": ["string", "integer"], "days": "integer"}
    schema = {"type": "object", "properties": {one: {"type": kind} for one, kind in kinds.items()}}
    text = f"<tool_call>\n<function=f>\n<parameter={name}>12"
    (call,) = read_text(text, [Tool("f", schema=schema)], dialect="qwen3_xml").calls
    assert (call.arguments, call.raw) == ({}, raw)


def test_a_call_that_begins_anew_is_one_call():
    text = "<tool_call:x>gar<tool_call:x>a<tool_sep:x>{}<end_of_tool_call:x>"
    reading = read_text(text, None, dialect="hunyuan_v3")
    assert (reading.content, [call.name for call in reading.calls]) == ("", ["a"])


def test_a_text_that_is_never_closed_ends_with_its_call():
    text = '<|tool_call>call:read_file{path:<|"|>a}<tool_call|>'
    assert read_text(text, TOOLS, dialect="gemma4").calls[0].arguments == {"path": "a"}


def test_the_model_decides_before_anything_is_seen():
    text = 'Action: ```json\n[{"tool_name": "read_file", "parameters": {}}]\n```'
    assert read_text(text, TOOLS, model="command-r-plus").calls[0].name == "read_file"


def test_a_model_that_drifts_from_its_dialect_is_still_read():
    text = "[TOOL_CALLS]read_file[ARGS]{}"
    assert read_text(text, TOOLS, model="qwen3:8b").calls[0].name == "read_file"


def test_a_mistyped_dialect_has_a_suggestion():
    with pytest.raises(ConfigError, match=r"did you mean `hermes_json`\?"):
        read_text("x", TOOLS, dialect="hermes_jsn")


def test_an_unknown_dialect_is_a_fault_of_the_configuration():
    with pytest.raises(ConfigError, match="there is no dialect 'klingon'"):
        TextReader(TOOLS, dialect="klingon")


def test_ids_that_repeat_are_replaced():
    call = "[TOOL_CALLS]read_file[CALL_ID]abc[ARGS]{}"
    first, second = read_text(call * 2, TOOLS, dialect="mistral_callid").calls
    assert first.id == "abc"
    assert second.id.startswith("toolu_")


def test_a_native_id_is_kept():
    text = "<|tool_call_begin|>functions.read_file:7<|tool_call_argument_begin|>{}<|tool_call_end|>"
    assert read_text(text, TOOLS, dialect="kimi_k2").calls[0].id == "functions.read_file:7"


@given(st.lists(st.sampled_from([
    "<tool_call>", "</tool_call>", "<think>", "</think>", '{"name": "read_file", "arguments": {',
    '"path": "a"', "}}", "\n", "text ", "<function=read_file>", "<parameter=path>", "</parameter>",
    "</function>", "```", "[TOOL_CALLS]", "[", "read_file(", "path='x'", ")", "]", "<|channel|>final",
    "<|message|>", '<invoke name="read_file">', "<", "\\", '"', "🙂",
]), max_size=14).map("".join), st.integers(1, 5), st.booleans())  # fmt: skip
def test_any_cut_of_any_text_reads_the_same(text, size, open_thought):
    def read(pieces):
        reader = TextReader(TOOLS, reasoning_open=open_thought)
        events = flat(reader.feed(piece) for piece in pieces) + reader.close()
        check(events)
        message = collect(events)
        return [(type(part), getattr(part, "text", None), getattr(part, "name", None),
                 getattr(part, "arguments", None), getattr(part, "raw", None))
                for part in message.content]  # fmt: skip

    cut = [text[at : at + size] for at in range(0, len(text), size)]
    assert read(cut) == read([text])


@given(st.text())
def test_text_without_marks_is_not_touched(text):
    if any(c in text for c in "<[{`✿⟦]\ud800") or "Action" in text or "functools" in text:
        return
    reading = read_text(text, TOOLS)
    assert reading.content == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


UNITS = [
    "lorem ipsum ",
    "<",
    "<tool_call>",
    "<think> <tool_call> ",
    '<tool_call>{"x":"',
    '<minimax:tool_call><invoke name="x">',
    '{"name": ',
    '{"x":',
    "[read_file(",
    "<tool_call><function=read_file><parameter=path> </parameter> x",
    "`x <tool_call> ",
    "`` x ` <tool_call> ",
    ' "<tool_call> ',
    "<!-- <tool_call> ",
    "> <tool_call>\n",
]


@every_row("size", [16, 10**9])
@every_row("unit", UNITS)
def test_the_work_grows_with_the_text_and_not_with_its_square(unit, size):
    def read(count):
        reader, text = TextReader(TOOLS), unit * count
        for at in range(0, len(text), size):
            reader.feed(text[at : at + size])
        reader.close()

    once, twice = (calls_made(lambda n=n: read(n)) for n in (150, 300))
    assert twice <= 2.3 * once + 100


@pytest.mark.parametrize(
    "text", ["The <think> tag opens a thought and </think> ends it.", "Write `<think>` first."]
)
def test_prose_that_speaks_of_a_thought_is_no_thought(text):
    assert read_text(text, TOOLS).content == text


@every_row("cut", [1, 3, 1000])
@every_row(
    ("text", "arguments"),
    [
        ("get_weather city=Paris days=2", {"city": "Paris", "days": 2}),
        ("get_weather city=\"New York\" days='2'", {"city": "New York", "days": 2}),
        ("get_weather \n", {}),
        ("get_weather city=Paris and more", None),
        ("get_weather soon", None),
    ],
)
def test_glm_may_assign_its_arguments_after_the_name(text, arguments, cut):
    fields = {"city": {"type": "string"}, "days": {"type": "integer"}}
    tool = Tool("get_weather", schema={"type": "object", "properties": fields})
    written = f"<tool_call>{text}</tool_call> ok"
    pieces = [written[at : at + cut] for at in range(0, len(written), cut)]
    events = [event for some in spoken(*pieces, dialect="glm47", tools=[tool]) for event in some]
    found = [call.arguments for call in calls(events)]
    assert found == ([] if arguments is None else [arguments])
    assert texts(events) == (written if arguments is None else " ok")


@every_row(
    ("inner", "arguments"),
    [
        ("a.txt]<]minimax[>[</path>", {"path": "a.txt"}),
        ("a.txt]<]minimax[>[<path>b.txt]<]minimax[>[</path>", {}),
        ("a.txt]<]minimax[>[ no tag", {}),
        ("a.txt", {}),  # `invoke` closes the call, and is not the name of a parameter
        ("a.txt]<]minimax[>[</path>]<]minimax[>[\n", {"path": "a.txt"}),
    ],
)
def test_minimax_names_a_parameter_without_its_opening_tag_by_the_closing_one(inner, arguments):
    token = "]<]minimax[>["
    head = f'{token}<tool_call>\n{token}<invoke name="read_file">'
    text = f"{head}{token}{inner}{token}</invoke>{token}</tool_call>"
    events = [event for some in spoken(*text, dialect="minimax_m3") for event in some]
    assert [call.arguments for call in calls(events)] == [arguments]


IN_SPAN = [
    '<function_calls> <invoke name="read_file"> <parameter name="path">a</parameter> </invoke> </function_calls>',
    "<tool_call><function=read_file><parameter=path>a</parameter></function></tool_call>",
    f"<tool_call>{JSON_CALL}</tool_call>",
    f"<tool_call>{JSON_CALL}</tool_call> <tool_call>{JSON_CALL}</tool_call>",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{}",
]


QUOTATIONS = [
    "To do it, write `{}` and wait.",
    "To do it, write ``{}`` and wait.",
    "To do it, write `` {} `` and wait.",
    "To do it, write `assistant: {}` and wait.",
    "The documentation:\n\n> {}\n\nThat was it.",
    "> {}\n>\n> {}",
    "- > The form is {}\n",
    "In HTML: <!-- {} --> is hidden.",
    "<!--\n{}\n-->",
    'You would write "{}" to call it.',
    "You would write '{}' to call it.",
    'You would write ("{}") to call it.',
    "You would write “{}” to call it.",
    "On écrit « {} » pour cela.",
    "他写“{}”。",
]


@every_row("quotation", QUOTATIONS)
@every_row("call", IN_SPAN)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_quoted_call_is_text_to_the_end_of_the_quotation(quotation, call, size):
    text = quotation.replace("{}", call)
    reader = TextReader(TOOLS)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events = [event for piece in pieces for event in reader.feed(piece)] + reader.close()
    assert calls(events) == []
    assert texts(events) == text


@every_row("quotation", QUOTATIONS)
@every_row("call", IN_SPAN)
def test_a_call_after_a_quoted_one_runs(quotation, call):
    text = quotation.replace("{}", call) + f"\n<tool_call>{JSON_CALL}</tool_call>"
    for size in (1, 1000):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        found = [one.name for batch in spoken(*pieces, dialect="auto") for one in calls(batch)]
        assert found == ["get_weather"]


@every_row(
    "text",
    [
        "    {}",
        "Let me look:\n\n    {}",
        'The file is "a.txt".{}',
        '"{}"',
        "'{}'",
        "Look at `a.txt'. {}",
        "The comment begins with <!-- and has no end.\n{}",
        "A comment begins with `<!--` in HTML.\n{}\nIt ends with `-->`.",
        "x > y\n{}",
        "> What is the weather?\n\n{}",
        "> What is the weather?\n{}",
        'The user said "what".\n\n{}',
        "Use ``a`b`` first. {}",
        'A quotation that nothing closes: "{} and more.',
        'A quotation that nothing closes: "{}\n\nThe "end".',
    ],
)
def test_a_call_that_is_not_certainly_quoted_runs(text):
    reading = read_text(text.replace("{}", f"<tool_call>{JSON_CALL}</tool_call>"), TOOLS)
    assert [call.arguments for call in reading.calls] == [{"city": "Rome"}]


@pytest.mark.parametrize("call", IN_SPAN)
def test_a_call_after_a_code_span_runs(call):
    events = spoken(f"As in `{call}`:\n", f"<tool_call>{JSON_CALL}</tool_call>", dialect="auto")
    assert [one.name for batch in events for one in calls(batch)] == ["get_weather"]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("dialect", ["auto", "fenced_json"])
@pytest.mark.parametrize("language", ["", "json", "tool_call"])
@pytest.mark.parametrize("between", ["\n", "\n\n"])
def test_fenced_calls_in_a_row_are_all_calls(size, dialect, language, between):
    text = between.join([f"```{language}\n{JSON_CALL}\n```"] * 3)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events = flat(spoken(*pieces, dialect=dialect))
    assert [call.arguments for call in calls(events)] == [{"city": "Rome"}] * 3
    assert texts(events) == ""


def test_a_fence_after_fenced_calls_and_text_is_text():
    fence = f"```json\n{JSON_CALL}\n```"
    reading = read_text(f"{fence}\nThe same again:\n{fence}", TOOLS)
    assert len(reading.calls) == 1
    assert reading.content.strip() == f"The same again:\n{fence}"


HARMONY = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city":"Rome"}<|call|>'


@every_row(
    "text",
    [
        f"Let me check.{HARMONY}",
        f"Let me check.\n<|start|>assistant{HARMONY}",
        f"Let me check. <|start|>assistant{HARMONY}",
        'Let me check.<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{"city":"Rome"}<|call|>',
        f"Let me check.<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant{HARMONY}",
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_a_harmony_message_after_text_is_read(text, size):
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events = flat(spoken(*pieces, dialect="auto"))
    assert [call.arguments for call in calls(events)] == [{"city": "Rome"}]
    assert texts(events).strip() == "Let me check."


@every_row(
    "text",
    [
        f"A call looks like <|start|>assistant{HARMONY}",
        f"A call: `<|start|>assistant{HARMONY}`",
        f"A call:\n> <|start|>assistant{HARMONY}",
        "The token <|channel|> names the channel.",
        "It begins so:\n<|start|>assistant is the header.",
    ],
)
def test_a_harmony_header_that_is_mentioned_is_text(text):
    assert read_text(text, TOOLS) == Reading(content=text)


@every_row(
    "text",
    ["the<|end|>token", "a **<|end|>** in bold", "the <|end|>-token", "token: <|end|>\nNext."],
)
def test_the_end_token_of_another_dialect_is_text_inside_an_answer(text):
    assert read_text(text, TOOLS).content == text


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("size", [1, 1000])
def test_an_answer_that_is_a_quoted_json_call_is_a_call(quote, size):
    text = f"{quote}{JSON_CALL}{quote}"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events = flat(spoken(*pieces, dialect="auto"))
    assert [call.arguments for call in calls(events)] == [{"city": "Rome"}]
    assert texts(events) == ""


@every_row(
    "text",
    [
        f"'{JSON_CALL}' is a call.",
        f"'{JSON_CALL}",
        '"{"name": "unknown", "arguments": {}}"',
        '"{x}" is a template',
        "'",
    ],
)
def test_quoted_json_that_is_no_whole_call_is_text(text):
    for pieces in ([text], list(text)):
        assert texts(flat(spoken(*pieces, dialect="auto"))) == text
        assert calls(flat(spoken(*pieces, dialect="auto"))) == []
