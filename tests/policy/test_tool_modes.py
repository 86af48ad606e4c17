"""Which mode the tools of a request take, and what the request then looks like."""

from tests.tables import every_row

from toolbridge.core.codec import Target
from toolbridge.core.messages import (
    Call,
    OutputFormat,
    Request,
    Result,
    Text,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.policy.tool_modes import (
    LearnedMode,
    ModeOutcome,
    ToolSupport,
    choose_mode,
    learn,
    lower_mode,
    outcome_of,
    tell_tools,
)
from toolbridge.translate import RequestOptions

AUTO, REQUIRED, NAMED = ToolChoice(), ToolChoice("required"), ToolChoice("named", ("get_time",))
FULL = ToolSupport(constraint="json_schema")
NO_TEMPLATE = ToolSupport(native=False, constraint="json_schema")
UNBOUND = ToolSupport(binds=False, constraint="json_schema")
BARE = ToolSupport(native=False)


@every_row(
    ("choice", "support", "learned", "mode"),
    [
        (AUTO, FULL, None, "native"),
        (REQUIRED, FULL, None, "native"),
        (NAMED, FULL, None, "native"),
        (AUTO, NO_TEMPLATE, None, "prompt"),
        (REQUIRED, NO_TEMPLATE, None, "constrained"),
        (NAMED, NO_TEMPLATE, None, "constrained"),
        (AUTO, UNBOUND, None, "native"),
        (REQUIRED, UNBOUND, None, "constrained"),
        (AUTO, BARE, None, "prompt"),
        (REQUIRED, BARE, None, "prompt"),
        (AUTO, FULL, "prompt", "prompt"),
        (REQUIRED, FULL, "prompt", "constrained"),
        (AUTO, FULL, "constrained", "prompt"),
        (AUTO, BARE, "constrained", "prompt"),
        (AUTO, NO_TEMPLATE, "native", "prompt"),
    ],
)
def test_the_best_mode_that_has_not_failed_is_chosen(choice, support, learned, mode):
    assert choose_mode(choice, support, learned) == mode


@every_row(
    ("mode", "choice", "constraint", "lower"),
    [
        ("native", AUTO, "json_schema", "prompt"),
        ("native", REQUIRED, "json_schema", "constrained"),
        ("native", REQUIRED, "", "prompt"),
        ("prompt", AUTO, "json_schema", "constrained"),
        ("prompt", AUTO, "", None),
        ("constrained", REQUIRED, "json_schema", None),
    ],
)
def test_a_failure_leads_to_the_next_mode(mode, choice, constraint, lower):
    assert lower_mode(mode, choice, constraint) == lower


WEATHER = Tool(
    "get_weather",
    "Tells the weather.",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/City"}},
        "required": ["city"],
        "$defs": {"City": {"type": "string", "minLength": 1}},
    },
)
TOOLS = (WEATHER, Tool("get_time"))


def told(mode="constrained", constraint="json_schema", **fields):
    turns = (
        Turn("user", (Text("hi"),)),
        Turn("assistant", (Call("c1", "get_time", {"zone": "CET"}),)),
        Turn("user", (Result("c1", (Text("noon"),)), Text("and now?"))),
    )
    request = Request(model="m", turns=turns, tools=TOOLS, **fields)
    return tell_tools(request, Target(model="m"), mode, RequestOptions(constraint=constraint))


def test_native_tools_stay_where_they_are():
    assert told("native").request.tools == TOOLS
    assert told("native").losses == ()


def test_told_tools_are_in_the_prompt_and_said():
    found = told("prompt")
    assert found.request.tools == ()
    assert found.request.output is None
    assert "get_weather" in found.request.system[0].text
    assert [loss.what for loss in found.losses] == ["tools"]


def forms(found):
    schema = found.request.output.schema
    return schema.get("anyOf", [schema])


def test_a_constrained_answer_is_a_call_several_calls_or_text():
    found = told()
    weather, time, several, text = forms(found)
    assert weather["properties"]["name"]["enum"] == ["get_weather"]
    # Its reference would point outside its schema.
    assert weather["properties"]["parameters"]["properties"]["city"] == {
        "type": "string",
        "minLength": 1,
    }
    assert "$schema" not in weather["properties"]["parameters"]
    assert time["properties"]["parameters"] == {"type": "object", "properties": {}}
    assert several["items"] == {"anyOf": [weather, time]}
    assert text["properties"] == {"text": {"type": "string"}}
    assert '{"text": "YOUR ANSWER"}' in found.request.system[0].text


def test_a_demanded_call_leaves_no_place_for_text():
    found = told(tool_choice=REQUIRED)
    assert [form["type"] for form in forms(found)] == ["object", "object", "array"]
    assert '"text"' not in found.request.system[0].text
    assert found.request.tool_choice == ToolChoice()


def test_a_named_tool_is_the_only_one():
    found = told(tool_choice=ToolChoice("named", ("get_time",), parallel=False))
    (only,) = forms(found)
    assert only["properties"]["name"]["enum"] == ["get_time"]
    assert "get_weather" not in found.request.system[0].text


def test_a_client_that_wants_json_gets_its_schema_in_place_of_text():
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}}}
    assert forms(told(output=OutputFormat(schema)))[-1] == schema


def test_a_choice_of_no_tool_needs_no_constraint():
    found = told(tool_choice=ToolChoice("none"))
    assert found.request.output is None
    assert found.request.system == ()


def test_a_provider_without_a_constraint_gets_the_prompt_and_says_so():
    found = told(constraint="")
    assert found.request.output is None
    assert "no constraint" in found.losses[0].why


def test_past_calls_are_written_as_the_answer_will_be():
    _, called, results = told().request.turns
    assert called.content[0].text == '{"name": "get_time", "parameters": {"zone": "CET"}}'
    assert results.content[0].text == "Result of get_time: noon"


# ── what answers show ────────────────────────────────────────────────────────

WORKED = ModeOutcome(worked=True)
FAILED = ModeOutcome(worked=False, why="x")
REJECTED = ModeOutcome(worked=False, why="x", certain=True)


@every_row(
    ("outcomes", "mode"),
    [
        ([], "native"),
        ([("native", FAILED)], "prompt"),
        ([("native", WORKED), ("native", FAILED)], "native"),
        ([("native", WORKED), ("native", REJECTED)], "prompt"),
        ([("native", WORKED)] + [("native", FAILED)] * 3, "prompt"),
        ([("native", WORKED)] + [("native", FAILED), ("native", WORKED)] * 5, "native"),
        # A failure moves the model down once: the last step is the caller's, by its tool choice.
        ([("native", FAILED), ("prompt", FAILED), ("prompt", FAILED)], "prompt"),
        # A request that was forced into another mode shows nothing about this one.
        ([("constrained", FAILED), ("prompt", FAILED), ("constrained", WORKED)], "native"),
    ],
)
def test_a_failure_moves_a_model_down_once_and_a_success_is_kept(outcomes, mode):
    known = LearnedMode(template="t")
    for used, outcome in outcomes:
        known = learn(known, used, outcome)
    assert known.mode == mode
    assert known.template == "t"
    assert known.why == ("" if mode == "native" else "x")


@every_row(
    ("choice", "reason", "broken", "limit", "worked"),
    [
        (AUTO, "tool_use", False, None, True),
        (AUTO, "tool_use", True, None, False),
        (AUTO, "end", False, None, None),
        (AUTO, "length", True, None, None),
        (REQUIRED, "tool_use", False, None, True),
        (REQUIRED, "end", False, None, False),
        (NAMED, "end", False, None, False),
        (REQUIRED, "length", False, None, False),
        (REQUIRED, "length", False, 64, None),
        (REQUIRED, "refusal", False, None, None),
        (REQUIRED, "error", False, None, None),
    ],
)
def test_what_the_end_of_an_answer_shows(choice, reason, broken, limit, worked):
    outcome = outcome_of(choice, reason, broken=broken, limit=limit)
    assert (None if outcome is None else outcome.worked) is worked
