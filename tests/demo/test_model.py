import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.demo.kits import (
    CLAUDE_CODE,
    CODEX,
    GEMINI_CLI,
    OPENCODE,
    WEATHER,
    ask,
    assistant,
    called,
    reply,
    result,
    user,
)
from tests.strategies import requests
from tests.tables import every_row

from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.json import loads
from toolbridge.core.messages import Call, Request, Text, Think, Tool, ToolChoice, Turn
from toolbridge.demo import MODEL, answer
from toolbridge.demo.model import count_input, pieces_of

CREATE = "create hello.txt saying hi"
KITS = st.sampled_from([(), CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE, (WEATHER,)])
WORDS = (
    "create write run read list `ls` a.txt saying with content: then and hi Paris weather in what is"
    " 2 * 3 [[tool]] [[tool2]] [[think]] [[error]] [[empty]] <system-reminder> </system-reminder> the"
    ' file called /x/y "quoted" say summarize this conversation title TEXT ONLY ? . \n'
)
prompts = st.lists(st.sampled_from(WORDS.split(" ")), max_size=14).map(" ".join)


def test_the_model_is_known_by_its_name():
    assert MODEL == "toolbridge-demo"
    assert reply("hi").model == MODEL


def test_text_comes_in_words_and_arguments_in_pieces():
    events = answer(ask(CREATE, tools=CLAUDE_CODE), Ids("x"))
    texts = [event.text for event in events if isinstance(event, ev.TextDelta)]
    parts = [event.json for event in events if isinstance(event, ev.CallDelta)]
    assert len(texts) > 2
    assert len(parts) > 2
    assert loads("".join(parts)) == collect(events).calls[0].arguments


def check_grammar(events):
    assert isinstance(events[0], ev.Started)
    assert [isinstance(event, ev.Finished | ev.Failed) for event in events].index(True) == (
        len(events) - 1
    )
    opened, closed = set(), set()
    for event in events:
        if isinstance(event, ev.TextStart | ev.ThinkingStart | ev.CallStart):
            assert not opened - closed, "blocks come one after the other"
            opened.add(event.index)
        if isinstance(event, ev.TextEnd | ev.ThinkingEnd | ev.CallEnd):
            closed.add(event.index)
    assert closed == opened or isinstance(events[-1], ev.Failed)


@given(requests())
def test_any_request_is_answered(request):
    events = answer(request, Ids("x"))
    check_grammar(events)
    assert events == answer(request, Ids("x"))


@given(
    prompts,
    KITS,
    st.none() | st.integers(0, 30),
    st.sampled_from(["auto", "required", "none"]),
    st.sampled_from(["on", "off", "unset", "auto"]),
)
def test_any_prompt_is_answered_within_its_limits(words, tools, limit, mode, thinking):
    request = ask(
        words,
        tools=tools,
        max_tokens=limit,
        tool_choice=ToolChoice(mode),
        think=Think(thinking),
        stop=("content",),
    )
    events = answer(request, Ids("x"))
    check_grammar(events)
    message = collect(events)
    assert limit is None or message.usage.output <= limit
    assert "content" not in message.text
    assert {call.name for call in message.calls} <= {tool.name for tool in tools}
    assert not (mode == "none" and message.calls)


@given(prompts, KITS)
def test_an_agent_loop_ends(words, tools):
    turns = [user(words)]
    for _ in range(12):
        message = collect(answer(Request("m", tuple(turns), tools=tools), Ids(str(len(turns)))))
        if not message.calls:
            return
        turns.append(Turn("assistant", message.content))
        turns.append(user(*[result(call, "fine") for call in message.calls]))
    pytest.fail("the model calls tools for ever")


def test_ids_come_from_the_seed():
    one, two = (collect(answer(ask(CREATE, tools=CODEX), Ids(seed))) for seed in ("a", "b"))
    assert one.id != two.id
    assert one.calls[0].id != two.calls[0].id


def test_usage_counts_what_was_read_and_said():
    message = reply("say one two three")
    assert message.usage.input == 5
    assert message.usage.output == 3


def test_every_part_of_a_request_is_counted():
    call = Call("1", "t", {"a": "b"})
    request = ask("1234", assistant(call), user(result(call, "1234")), system=(Text("1234"),))
    assert count_input(request) == -(-(4 + 9 + 4 + 4) // 4)
    with_tool = ask("1234", tools=(Tool("abcd", "efgh", {}),))
    assert count_input(with_tool) == -(-(4 + 4 + 4 + 2) // 4)


@given(st.text())
def test_pieces_make_the_whole(text):
    assert "".join(pieces_of(text)) == text


def test_a_short_limit_cuts_the_answer():
    message = reply("who are you?", max_tokens=5)
    assert message.stop == "length"
    assert message.text == "I am the embedded demo"


def test_a_limit_that_fits_exactly_cuts_nothing():
    assert reply("say one two", max_tokens=2).stop == "end"


def test_a_call_is_never_cut():
    message = reply(CREATE, tools=CLAUDE_CODE, max_tokens=8)
    assert message.stop == "length"
    assert message.calls == ()


@pytest.mark.parametrize(("stop", "text"), [(("two",), "one "), (("x", "three", "two"), "one ")])
def test_a_stop_sequence_ends_the_answer(stop, text):
    message = reply("say one two three", stop=stop)
    assert (message.stop, message.stop_sequence, message.text) == ("stop_sequence", "two", text)


def test_a_limit_before_the_stop_sequence_wins():
    message = reply("say one two three", stop=("three",), max_tokens=1)
    assert (message.stop, message.stop_sequence) == ("length", "")


def test_an_empty_stop_sequence_stops_nothing():
    assert reply("say one", stop=("",)).text == "one"


def test_the_beginning_that_a_client_gives_is_continued():
    assert reply("say one two", assistant("one")).text == " two"
    assert reply("say one two", assistant("one two")).text == "one two"


# The whole way, as each client goes it.

NOISE = (
    "<system-reminder>\n# Environment\n - Primary working directory: /home/u/p\n</system-reminder>",
    "<system-reminder>\nUse `rm` never; create nothing.txt saying no.\n</system-reminder>",
)


@every_row("tools", [CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE])
def test_a_file_is_created_and_that_is_said(tools):
    first = reply(user(*NOISE, CREATE), tools=tools)
    assert first.stop == "tool_use"
    (call,) = first.calls
    done = user(result(call, "File created."), NOISE[0])
    last = reply(user(*NOISE, CREATE), Turn("assistant", first.content), done, tools=tools)
    assert (last.stop, last.text, last.calls) == ("end", "Done: I created hello.txt.", ())


def test_a_system_turn_after_the_prompt_changes_nothing():
    place = Turn("system", (Text("Primary working directory: /home/u/p\nrun `rm x`"),))
    assert called(CREATE, place, tools=CLAUDE_CODE) == [
        ("Write", {"file_path": "/home/u/p/hello.txt", "content": "hi"})
    ]


def test_a_failure_is_said_and_not_repeated():
    call = Call("1", "Write", {"file_path": "hello.txt", "content": "hi"})
    turn = user(result(call, "No space left.", is_error=True))
    message = reply(CREATE, assistant(call), turn, tools=CLAUDE_CODE)
    assert message.calls == ()
    assert "failed" in message.text
    assert "No space left." in message.text


def test_steps_follow_one_another():
    words = "create a.txt saying x, then run `cat a.txt`"
    first = reply(words, tools=CODEX)
    turns = (words, Turn("assistant", first.content), user(result(first.calls[0], "ok")))
    second = reply(*turns, tools=CODEX)
    assert second.calls[0].arguments == {"cmd": "cat a.txt"}
    end = reply(
        *turns,
        Turn("assistant", second.content),
        user(result(second.calls[0], "x")),
        tools=CODEX,
    )
    assert end.text == "Done: I created a.txt.\n\nI ran `cat a.txt`. x"


def test_steps_end_with_a_failure():
    words = "create a.txt saying x, then run `cat a.txt`"
    first = reply(words, tools=CODEX)
    failure = user(result(first.calls[0], "Error: no"))
    assert called(words, Turn("assistant", first.content), failure, tools=CODEX) == []


def test_calls_come_one_by_one_where_the_client_wants_that():
    words, choice = "weather in Rome and Oslo?", ToolChoice(parallel=False)
    first = reply(words, tools=(WEATHER,), tool_choice=choice)
    assert [call.arguments for call in first.calls] == [{"city": "Rome"}]
    turns = (Turn("assistant", first.content), user(result(first.calls[0], "sun")))
    assert called(words, *turns, tools=(WEATHER,), tool_choice=choice) == [
        ("get_weather", {"city": "Oslo"})
    ]


def test_a_required_call_is_not_made_again_after_its_result():
    call = Call("1", "get_weather", {"city": "Paris"})
    choice = ToolChoice("required")
    turns = ("hello", assistant(call), user(result(call, "sun")))
    assert called(*turns, tools=(WEATHER,), tool_choice=choice) == []
