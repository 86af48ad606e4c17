"""Tool names that a target accepts, and the way back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Call, Reference, Request, Result, Tool, ToolChoice, Turn
from toolbridge.history import prepare
from toolbridge.history.names import legal_name, legal_names

CHAT = Rules(name_pattern=r"[A-Za-z0-9_-]+", name_length=64)
GEMINI = Rules(name_pattern=r"[A-Za-z_][A-Za-z0-9_.:-]*", name_length=128)
LONG = "mcp__a_server_with_a_very_long_name__" + "and_a_tool_with_one_" * 3


@given(st.text(), st.sampled_from([CHAT, GEMINI]))
def test_a_new_name_is_legal(name, rules):
    new = legal_name(name, rules)
    assert re.fullmatch(rules.name_pattern, new)
    assert len(new) <= rules.name_length


def test_a_long_name_keeps_its_beginning_and_ends_in_six_digits():
    new = legal_name(LONG + "_one", CHAT)
    assert new[:57] == LONG[:57]
    assert re.fullmatch(r"_[0-9a-f]{6}", new[57:])
    assert new != legal_name(LONG + "_two", CHAT)


def test_a_name_that_begins_with_a_digit_gets_a_letter_where_one_is_wanted():
    assert legal_name("7zip", GEMINI).startswith("t_7zip_")


CALLED = (Turn("assistant", (Call("a", LONG),)), Turn("user", (Result("a", ()),)))
FOUND = (Turn("assistant", (Call("a", "f"),)), Turn("user", (Result("a", (Reference(LONG),)),)))


@pytest.mark.parametrize(
    "asked",
    [
        Request("m", CALLED),
        Request("m", FOUND),
        Request("m", (Turn("user", (Reference(LONG),)),)),
        Request("m", tools=(Tool(LONG),)),
        Request("m", tools=(Tool("f"),), tool_choice=ToolChoice("auto", (LONG,))),
        Request("m", CALLED, tools=(Tool("f"),)),
        Request("m", (Turn("user", (Reference(LONG),)),), tools=(Tool("f"),)),
    ],
)
def test_a_name_is_replaced_wherever_it_stands_alone(asked):
    assert prepare(asked, CHAT).names == {legal_name(LONG, CHAT): LONG}


def test_tools_choice_calls_results_and_references_are_renamed_alike():
    request = Request(
        "m",
        (
            Turn("assistant", (Call("a", LONG),)),
            Turn("user", (Result("a", (Reference(LONG),), name=LONG), Reference(LONG))),
        ),
        tools=(Tool(LONG), Tool("Bash")),
        tool_choice=ToolChoice("named", (LONG,)),
    )
    legal, names = legal_names(request, CHAT)
    new = legal.tools[0].name
    result, reference = legal.turns[1].content
    assert names == {new: LONG}
    assert legal.tools[1].name == "Bash"
    assert legal.tool_choice.names == (new,)
    assert legal.turns[0].content[0].name == new
    assert (result.name, result.content[0].name, reference.name) == (new, new, new)


def test_a_hosted_tool_keeps_the_name_that_its_api_gave_it():
    request = Request("m", tools=(Tool("web.search", hosted={"type": "web"}),))
    assert legal_names(request, CHAT) == (request, {})


def test_a_new_name_never_takes_one_that_is_in_use():
    taken = legal_name("a.b", CHAT)
    legal, names = legal_names(Request("m", tools=(Tool("a.b"), Tool(taken))), CHAT)
    assert len({tool.name for tool in legal.tools}) == 2
    assert names[legal.tools[0].name] == "a.b"


@pytest.mark.parametrize("turns", [0, 3])
def test_a_name_does_not_depend_on_what_else_was_said(turns):
    past = (Turn("assistant", (Call("x", "other.tool"),)),) * turns
    request = Request("m", past, tools=(Tool("a.b"),))
    assert legal_name("a.b", CHAT) in prepare(request, CHAT).names
