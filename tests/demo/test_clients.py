"""How particular clients speak, as seen from the clients themselves; their longer texts are ours."""

import pytest
from tests.demo.kits import ABSOLUTE, ask, assistant, obj, reply, result, string, user
from tests.tables import every_row

from toolbridge.core.messages import Call, Text, Tool
from toolbridge.demo.conversation import read_conversation

CREATE = "create hello.txt saying hi"
WRITE = Tool(
    "write_file", "Writes a file.", obj(["file_path"], file_path=ABSOLUTE, content=string())
)
QWEN = (
    "This is the Qwen Code. We are setting up the context for our chat.\nMy operating system is: linux\n"
    "I'm currently working in the directory: /srv/work\nHere is the folder structure:\n\n/srv/work/"
)
LISTING = "When you change a file, answer with it whole in the *file listing* format."
BLOCKS = "All changes to files must use the *SEARCH/REPLACE block* format."


def test_qwen_code_tells_its_directory_in_a_first_message():
    (call,) = reply(QWEN, assistant("Got it."), CREATE, tools=(WRITE,)).calls
    assert call.arguments == {"file_path": "/srv/work/hello.txt", "content": "hi"}


def test_copilot_puts_the_time_in_front():
    words = f"<current_datetime>2026-11-16T06:45:38.031+00:00</current_datetime>\n\n{CREATE}"
    assert read_conversation(ask(words)).words == CREATE
    assert reply(words, tools=(WRITE,)).calls


def after(text: str):
    call = Call("c1", "write_file", {"file_path": "hello.txt", "content": "hi"})
    return reply(CREATE, assistant(call), user(result(call, text)), tools=(WRITE,)).text


@every_row(
    "text",
    [
        "File created successfully at: /w/hello.txt",
        "Successfully created and wrote to new file: /w/hello.txt",
        "Wrote file successfully.",
        "Created file /w/hello.txt with 2 characters",
        "",
        "(Bash completed with no output)",
        "<exited with exit code 0>",
    ],
)
def test_a_result_that_confirms_is_done(text):
    assert after(text) == "Done: I created hello.txt."


@every_row(
    "text",
    [
        "File path must be absolute: hello.txt",
        "File has not been read yet. Read it first before writing to it.",
        "permission denied, nothing was created",
        "The user wants to think about it.",
        "params must have required property 'content'",
    ],
)
def test_a_result_that_does_not_confirm_is_not_called_done(text):
    said = after(text)
    assert "Done" not in said
    assert text in said


@pytest.mark.parametrize(
    ("system", "rules", "block"),
    [
        (
            LISTING,
            "\n\nTo suggest changes to a file you MUST return all of it.\n\npath/to/file.js\n```\n…\n```",
            "hello.txt\n```\nhi\n```",
        ),
        (
            BLOCKS,
            "\n\n# *SEARCH/REPLACE block* Rules:\n\nEvery block begins with the file's path.",
            "hello.txt\n```\n<<<<<<< SEARCH\n=======\nhi\n>>>>>>> REPLACE\n```",
        ),
    ],
)
def test_aider_without_tools_gets_an_edit_block(system, rules, block):
    assert reply(CREATE + rules, system=(Text(system),)).text == block


def test_a_client_without_tools_and_without_a_format_is_told_so():
    assert "offers no tools" in reply(CREATE).text
    assert "offers no tools" in reply("run `ls`", system=(Text(LISTING),)).text
