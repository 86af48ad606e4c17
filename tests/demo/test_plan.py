import pytest
from tests.demo.kits import (
    CLAUDE_CODE,
    CODEX,
    WEATHER,
    assistant,
    called,
    obj,
    reply,
    result,
    string,
    user,
)
from tests.tables import every_row

from toolbridge.core.json import loads
from toolbridge.core.messages import (
    Call,
    Image,
    OutputFormat,
    Reference,
    Result,
    Text,
    Think,
    Tool,
    ToolChoice,
)

CREATE = "create hello.txt saying hi"
TITLE = OutputFormat(obj(["title"], title=string()))


@pytest.mark.parametrize("mode", ["on", "auto", "between_tools"])
def test_it_thinks_when_asked(mode):
    message = reply("hi", think=Think(mode))
    assert message.thinking.count(".") == 2
    assert message.content[0].text == message.thinking


@pytest.mark.parametrize("think", [Think(), Think("off"), Think("on", effort="none")])
def test_it_does_not_think_unasked(think):
    assert reply("hi", think=think).thinking == ""


def test_the_thought_is_about_the_plan():
    message = reply(CREATE, tools=CLAUDE_CODE, think=Think("on"))
    assert message.thinking == "The user wants me to create hello.txt. I will call Write."


def test_structured_output_fits_its_schema():
    schema = obj(["name", "age"], name=string(), age={"type": "integer"})
    message = reply("Extract: John Smith is 30 years old.", output=OutputFormat(schema))
    assert loads(message.text) == {"name": "John Smith", "age": 30}


def test_json_without_a_schema_holds_the_answer():
    assert loads(reply("say hi", output=OutputFormat()).text) == {"answer": "hi"}


def test_tools_come_before_structured_output():
    output = OutputFormat(obj(["answer"], answer=string()))
    first = reply(CREATE, tools=CODEX, output=output)
    done = user(result(first.calls[0], "ok"))
    last = reply(CREATE, assistant(*first.content), done, tools=CODEX, output=output)
    assert loads(last.text) == {"answer": "Done: I created hello.txt."}


@every_row(
    ("words", "system", "title"),
    [
        ('"Create the file /w/hello.txt with this content: x"', "You are a title generator.",
         "Create hello.txt"),
        ("<session>\nwhy is the sky so blue, dear model?\n</session>\nName it.",
         "You are naming a coding session.", "Why is the sky so blue"),
        ("Generate a title for this conversation:\nrun `ls -la`", "", "Run ls -la"),
        ("Generate a title for this conversation:", "", "Generate a title for this conversation"),
    ],
)  # fmt: skip
def test_conversations_get_short_titles(words, system, title):
    assert reply(words, system=(Text(system),)).text == title


def test_a_title_comes_as_json_where_that_is_asked():
    words = "Generate a title for this conversation:\nrun `ls`"
    assert loads(reply(words, output=TITLE).text) == {"title": "Run ls"}
    assert loads(reply(words + '\nJSON: {"title": "…"}', output=None).text)["title"]


def test_an_agent_that_is_asked_for_a_title_is_still_an_agent():
    assert called("create title.txt saying x", tools=CODEX)


COMPACT = (
    "CRITICAL: Respond with TEXT ONLY. Do not call tools. Wrap it in <analysis> and <summary>."
)


def test_compaction_gets_a_summary_and_no_call():
    call = Call("1", "exec_command", {"cmd": "x"})
    turns = (CREATE, assistant(call), user(result(call, "ok"), COMPACT))
    message = reply(*turns, tools=CODEX)
    assert message.calls == ()
    assert "<analysis>" in message.text
    inside = message.text.split("<summary>")[1].split("</summary>")[0]
    assert CREATE in inside
    assert "CRITICAL" not in inside


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("Please summarize this conversation.", "The user asked for:\n- nothing yet"),
        ("Now write the <state_snapshot>.", "<state_snapshot>"),
    ],
)
def test_other_summaries_come_as_they_are_asked_for(words, start):
    assert reply(words).text.startswith(start)


def test_a_question_about_html_is_no_summary():
    assert "<analysis>" not in reply("what does <summary> do in HTML?").text


# Marks.


def test_marks_stage_what_tests_need():
    assert len(reply("[[long]]").text.split()) == 2000
    assert reply("[[empty]]", think=Think("on")).content == ()
    assert "👨‍👩‍👧‍👦" in reply("[[unicode]]").text
    assert loads(reply("[[json]]").text) == {"answer": "yes"}
    assert "```" in reply("[[code]]").text
    assert reply("[[slow]] say hi").text == "hi"


def test_a_staged_failure_comes_in_the_middle():
    message = reply("[[error]]")
    assert message.stop == "error"
    assert message.problem.kind == "overloaded"
    assert message.text


def test_a_mark_can_ask_for_thought():
    assert reply("[[think]] hi").thinking
    assert not reply("[[think]] hi", think=Think("off")).thinking


@pytest.mark.parametrize(
    ("tools", "one", "two"),
    [
        ((WEATHER,), [{"city": "Paris"}], [{"city": "Berlin"}, {"city": "Rome"}]),
        (CODEX, [{"cmd": "echo demo-ok"}], [{"cmd": "echo one-ok"}, {"cmd": "echo two-ok"}]),
        ((), [], []),
    ],
)
def test_marks_can_ask_for_calls(tools, one, two):
    assert [arguments for _, arguments in called("[[tool]]", tools=tools)] == one
    assert [arguments for _, arguments in called("[[tool2]]", tools=tools)] == two


def test_a_marked_call_ends_with_its_result():
    call = Call("1", "exec_command", {"cmd": "echo demo-ok"})
    message = reply("[[tool]] go", assistant(call), user(result(call, "demo-ok")), tools=CODEX)
    assert message.text == "The tool exec_command answered: demo-ok"


# Which tools may be called.


def test_a_deferred_tool_is_called_only_once_it_is_loaded():
    hidden = Tool("get_time", "", obj(), deferred=True)
    assert called("what time is it?", tools=(hidden,)) == []
    found = Call("1", "ToolSearch", {})
    turns = ("find it", assistant(found), user(Result("1", (Reference("get_time"),))))
    assert called(*turns, "what time is it?", tools=(hidden,)) == [("get_time", {})]


def test_the_answer_goes_into_the_tool_that_takes_it():
    final = Tool("final_result", "Takes the answer.", obj(["answer"], answer=string()))
    assert called("say hi", tools=(final,)) == [("final_result", {"answer": "hi"})]
    call = Call("1", "get_weather", {"city": "Rome"})
    turns = ("weather in Rome?", assistant(call), user(result(call, "sun")))
    required = ToolChoice("required")
    assert called(*turns, tools=(WEATHER, final), tool_choice=required) == [
        ("final_result", {"answer": "The tool get_weather answered: sun"})
    ]
    done = Call("2", "final_result", {"answer": "x"})
    assert called(*turns, assistant(done), user(result(done, "ok")), tools=(WEATHER, final)) == []


def test_what_no_tool_can_do_is_said():
    assert "no tools" in reply(CREATE).text
    assert "none of the tools" in reply(CREATE, tools=(WEATHER,)).text


def test_a_step_that_no_tool_can_do_is_said_at_the_end():
    writer = Tool("write", "", obj(["path", "content"], path=string(), content=string()))
    words = CREATE + ", then run `ls`"
    first = reply(words, tools=(writer,))
    done = user(result(first.calls[0], "ok"))
    text = reply(words, assistant(*first.content), done, tools=(writer,)).text
    assert text.startswith("Done: I created hello.txt.")
    assert "I would run `ls`" in text


def test_a_call_without_a_result_is_not_repeated():
    call = Call("1", "exec_command", {"cmd": "printf '%s\\n' hi > hello.txt"})
    message = reply(CREATE, assistant(call), tools=CODEX)
    assert message.calls == ()
    assert "no result" in message.text


def test_the_calls_of_another_model_are_told_as_they_are():
    call = Call("1", "Read", {"file_path": "x"})
    message = reply(CREATE, assistant(call), user(result(call, "line one")), tools=CLAUDE_CODE)
    assert message.text == "The tool Read answered: line one"


def test_images_are_counted_and_named():
    image = Image(data="x", media_type="image/png")
    text = reply(user("describe this image", image, image)).text
    assert "2 images (image/png, image/png)" in text
    assert "1 image (image)" in reply(user(Image(url="https://e.org/x.png"))).text
