"""What a caller may say, as one request."""

import pytest
from tests.tables import every_row

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.messages import (
    OutputFormat,
    Request,
    Sampling,
    Text,
    Think,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.sdk.streams.options import prepare, think_of

HI = Turn("user", (Text("hi"),))


@every_row("prompt", ["hi", HI, [HI], (HI,), Request("", (HI,)), Request("x", (HI,))])
def test_a_prompt_has_many_forms(prompt):
    assert prepare("m", prompt, {}).request == Request("m", (HI,), stream=True)


def test_a_request_keeps_what_no_option_changes():
    given = Request(
        "m", (HI,), system=(Text("a"),), tools=(Tool("t"),), max_tokens=5, session="s", user="u",
        stop=("x",), sampling=Sampling(top_k=3), output=OutputFormat(),
    )  # fmt: skip
    kept = prepare("", given, {"temperature": 0.0, "system": "b"}).request
    assert kept.sampling == Sampling(top_k=3, temperature=0.0)
    assert kept.system == (Text("a"), Text("b"))
    assert (kept.max_tokens, kept.session, kept.user, kept.stop) == (5, "s", "u", ("x",))
    assert (kept.tools, kept.output, kept.model) == ((Tool("t"),), OutputFormat(), "m")


def look(city: str) -> str:
    return city


@every_row(
    ("options", "field", "expected"),
    [
        ({"system": "be"}, "system", (Text("be"),)),
        ({"max_tokens": 7}, "max_tokens", 7),
        ({"temperature": 0.5, "top_p": 0.1, "seed": 3}, "sampling",
         Sampling(temperature=0.5, top_p=0.1, seed=3)),
        ({"stop": ["a", "b"]}, "stop", ("a", "b")),
        ({"stop": "ab"}, "stop", ("ab",)),
        ({"session_id": "s"}, "session", "s"),
        ({"user": "u"}, "user", "u"),
        ({"tool_choice": "required", "tools": [look]}, "tool_choice", ToolChoice("required")),
        ({"tool_choice": "look", "tools": [look]}, "tool_choice", ToolChoice("named", ("look",))),
        ({"tool_choice": ToolChoice("none")}, "tool_choice", ToolChoice("none")),
        ({"output": OutputFormat()}, "output", OutputFormat()),
        ({"think": True}, "think", Think(mode="on")),
    ],
)  # fmt: skip
def test_an_option_reaches_the_request(options, field, expected):
    assert getattr(prepare("m", "hi", options).request, field) == expected


def test_functions_and_tools_are_offered_together():
    order = prepare("m", "hi", {"tools": [look, Tool("theirs")]})
    assert [tool.name for tool in order.request.tools] == ["look", "theirs"]
    assert list(order.functions) == ["look"]


@every_row(
    ("think", "expected"),
    [
        (False, Think(mode="off")),
        ("none", Think(mode="off")),
        ("high", Think(mode="on", effort="high")),
        (2048, Think(mode="on", budget=2048)),
        (Think(mode="auto"), Think(mode="auto")),
    ],
)
def test_thinking_is_a_word_a_number_or_a_yes(think, expected):
    assert think_of(think) == expected


@every_row(
    ("prompt", "options", "error"),
    [
        ("", {}, MalformedRequest),
        ("   ", {}, MalformedRequest),
        ([], {}, MalformedRequest),
        ([{"role": "user"}], {}, TypeError),
        ("hi", {"warmth": 1}, TypeError),
        ("hi", {"think": "hard"}, ValueError),
        ("hi", {"cache_retention": "ever"}, ValueError),
    ],
)
def test_what_nobody_can_mean_is_refused(prompt, options, error):
    with pytest.raises(error):
        prepare("m", prompt, options)


def test_a_wrong_option_is_named_beside_the_right_ones():
    with pytest.raises(
        TypeError, match=r"no option 'warmth'; known options: system, .*temperature"
    ):
        prepare("m", "hi", {"warmth": 1})


@every_row(
    ("options", "where", "words"),
    [
        ({"max_tokens": -5}, "max_tokens", "at least 1"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_tokens": 1.5}, "max_tokens", "whole number"),
        ({"max_tokens": True}, "max_tokens", "whole number"),
        ({"tool_choice": "requird", "tools": [look]}, "tool_choice", "did you mean 'required'"),
        ({"tool_choice": "lok", "tools": [look]}, "tool_choice", "did you mean 'look'"),
        ({"tool_choice": "look"}, "tool_choice", "none is offered"),
        ({"tool_choice": "required"}, "tool_choice", "none is offered"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(options, where, words):
    with pytest.raises(MalformedRequest, match=words) as caught:
        prepare("m", "hi", options)
    assert caught.value.problem.where == where


def test_a_mistyped_option_has_a_suggestion():
    with pytest.raises(TypeError, match=r"no option 'temprature'.*; did you mean `temperature`\?"):
        prepare("m", "hi", {"temprature": 1.0})
