import shlex
import subprocess

import pytest
from tests.demo.kits import CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE, called, obj, string
from tests.tables import every_row

from toolbridge.core.messages import Text, Tool

HERE = (Text("Primary working directory: /home/u/p"),)
CREATE = "create hello.txt saying hi"
GATEWAY = "Create the file /home/u/p/hello.txt with exactly this content: hello from gateway"


def only(tools, *names):
    return tuple(tool for tool in tools if tool.name in names)


@every_row(
    ("tools", "call"),
    [
        (CLAUDE_CODE, ("Write", {"file_path": "/home/u/p/hello.txt", "content": "hi"})),
        (CODEX, ("exec_command", {"cmd": "printf '%s\\n' hi > hello.txt"})),
        (GEMINI_CLI, ("write_file", {"file_path": "hello.txt", "content": "hi"})),
        (OPENCODE, ("write", {"filePath": "/home/u/p/hello.txt", "content": "hi"})),
    ],
)
def test_each_client_gets_a_call_of_its_own_tool(tools, call):
    assert called(CREATE, tools=tools, system=HERE) == [call]


@pytest.mark.parametrize("tools", [CLAUDE_CODE, GEMINI_CLI, OPENCODE])
def test_exact_content_is_written_exactly(tools):
    ((_, arguments),) = called(GATEWAY, tools=tools)
    assert "hello from gateway" in arguments.values()
    assert "/home/u/p/hello.txt" in arguments.values()


def test_without_a_writer_the_shell_writes():
    ((name, arguments),) = called(CREATE, tools=only(CLAUDE_CODE, "Bash", "Edit", "Read"))
    assert name == "Bash"
    assert arguments["command"] == "printf '%s\\n' hi > hello.txt"
    assert arguments["description"]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("a.txt", 'it\'s $HOME `id` "x" \\n'),
        ("deep/er/a.txt", "%s"),
        ("a b.txt", "-n"),
        ("e.txt", ""),
    ],
)
def test_a_shell_writes_exactly_what_was_said(path, content, tmp_path):
    words = f'create a file called "{path}" with this content: {content}'
    ((_, arguments),) = called(words, tools=only(CODEX, "exec_command"))
    subprocess.run(["bash", "-c", arguments["cmd"]], cwd=tmp_path, check=True)
    assert (tmp_path / path).read_text() == (content.strip() + "\n" if content else "")


def test_no_folder_is_made_where_the_client_stands():
    ((_, arguments),) = called(GATEWAY, tools=CODEX, system=HERE)
    assert shlex.split(arguments["cmd"])[0] == "printf"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (
            Tool("shell", "", obj(["command"], command={"type": "array"})),
            {"command": ["bash", "-lc", "ls"]},
        ),
        (
            Tool("run_commands", "", obj(["commands"], commands={"type": ["array", "null"]})),
            {"commands": ["ls"]},
        ),
        (
            Tool(
                "terminal",
                "",
                obj(
                    ["command", "explanation", "wait", "times", "mode"],
                    command=string(),
                    explanation=string(),
                    wait={"type": "boolean"},
                    times={"type": "integer", "minimum": 2},
                    mode={"enum": ["fg", "bg"]},
                ),
            ),
            {"command": "ls", "explanation": "Run ls", "wait": False, "times": 2, "mode": "fg"},
        ),
    ],
)
def test_a_command_is_given_as_the_schema_wants_it(tool, arguments):
    assert called("run `ls`", tools=(tool,)) == [(tool.name, arguments)]


EDITOR = Tool(
    "str_replace_based_edit_tool",
    "",
    obj(
        ["command", "path"],
        command=string(enum=["view", "create", "str_replace"]),
        path=string(),
        file_text=string(),
    ),
)


def test_a_tool_that_is_many_gets_the_fitting_command():
    assert called(CREATE, tools=(EDITOR,))[0][1] == {
        "command": "create",
        "path": "hello.txt",
        "file_text": "hi",
    }
    assert called("read a.txt", tools=(EDITOR,))[0][1] == {"command": "view", "path": "a.txt"}


def test_a_patch_is_written_where_nothing_else_writes():
    patch = "*** Begin Patch\n*** Add File: hello.txt\n+hi\n*** End Patch\n"
    assert called(CREATE, tools=only(CODEX, "apply_patch")) == [("apply_patch", {"input": patch})]


@pytest.mark.parametrize(
    ("tools", "call"),
    [
        (CLAUDE_CODE, ("Read", {"file_path": "/home/u/p/a.txt"})),
        (GEMINI_CLI, ("read_file", {"file_path": "a.txt"})),
        (CODEX, ("exec_command", {"cmd": "cat a.txt"})),
    ],
)
def test_files_are_read_with_the_reader_or_the_shell(tools, call):
    assert called("read a.txt", tools=tools, system=HERE) == [call]


@pytest.mark.parametrize(
    ("tools", "call"),
    [
        (GEMINI_CLI, ("list_directory", {"dir_path": "."})),
        (only(OPENCODE, "glob"), ("glob", {"pattern": "*"})),
        (CODEX, ("exec_command", {"cmd": "ls -la ."})),
    ],
)
def test_files_are_listed_with_the_lister_or_the_shell(tools, call):
    assert called("list the files", tools=tools) == [call]


def test_a_folder_is_listed_by_its_name():
    assert called("list the files in src", tools=only(OPENCODE, "glob")) == [
        ("glob", {"pattern": "*", "path": "src"})
    ]


@every_row("words", [CREATE, "run `ls`", "read a.txt", "list files"])
@every_row(
    "tools",
    [
        (),
        only(CLAUDE_CODE, "Edit", "Agent", "Workflow", "Skill"),
        only(OPENCODE, "edit", "task"),
        only(CODEX, "write_stdin", "view_image", "web_search"),
    ],
)
def test_tools_that_do_something_else_are_not_called(words, tools):
    assert called(words, tools=tools) == []
