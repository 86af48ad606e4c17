import pytest
from tests.demo.kits import CODEX, assistant, reply, result, user
from tests.tables import every_row

from toolbridge.core.messages import Call
from toolbridge.demo.speech import ABOUT, excerpt, small_talk


@every_row(
    ("words", "said"),
    [
        ("say hello world", "hello world"),
        ("Say hi and stop", "hi"),
        ("Reply with exactly: OK", "OK"),
        ('repeat after me: "a b c"', "a b c"),
        ("what is 12*7", "12*7 = 84"),
        ('how many words are in "a b c"?', "I count 3 words."),
        ("Count the words in: one two", "I count 2 words."),
        ("who are you?", ABOUT),
        ("say", ABOUT),
        ("", ABOUT),
    ],
)
def test_small_things_are_answered(words, said):
    assert small_talk(words) == said


@pytest.mark.parametrize("words", ["hi", "Hello there!", "good morning"])
def test_a_greeting_is_returned(words):
    assert small_talk(words).startswith("Hello!")


def test_it_says_what_it_is_and_how_to_get_a_real_model():
    for word in ("demo model", "toolbridge init", "ollama pull qwen3:8b"):
        assert word in ABOUT
    assert "finds without a restart" in ABOUT


@every_row(
    ("words", "output", "said"),
    [
        ("run `true`", "", "I ran `true`. It printed nothing."),
        ("run `id`", "me", "I ran `id`. me"),
        ("read a.txt", "one\ntwo", "Here is a.txt:\n\none\ntwo"),
        ("read a.txt", "", "Here is a.txt: It is empty."),
        ("list files", "a\nb", "These are the files:\n\na\nb"),
        ("list files", "", "These are the files: There are none."),
    ],
)
def test_what_a_tool_said_is_shown(words, output, said):
    call = Call("1", "exec_command", {})
    assert reply(words, assistant(call), user(result(call, output)), tools=CODEX).text == said


def test_long_results_are_cut_and_marked():
    assert excerpt("short\n") == "short"
    assert excerpt("x" * 601) == "x" * 600 + " …"
    assert excerpt("a\n" * 20) == "\n".join("a" * 12) + " …"


@every_row(
    ("words", "said"),
    [
        ("create a.txt saying x and b.txt saying y", "I will create a.txt and create b.txt."),
        ("run `ls`", "I will run `ls`."),
        ("read a.txt", "I will read a.txt."),
        ("list files", "I will list the files here."),
        ("list the files in src", "I will list the files in src."),
    ],
)
def test_what_is_about_to_be_done_is_said(words, said):
    assert reply(words, tools=CODEX).text == said
