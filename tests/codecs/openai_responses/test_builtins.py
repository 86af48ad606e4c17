import json

import pytest
from tests.codecs.openai_responses.test_encode_stream import Story
from tests.properties import grammar
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.codecs.openai_responses import CODEC
from toolbridge.codecs.openai_responses.builtins import BUILTINS, decode_builtin
from toolbridge.codecs.openai_responses.decode_stream import StreamDecoder
from toolbridge.codecs.openai_responses.encode_stream import encode_message
from toolbridge.core.codec import AnswerContext, Target
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.json import dumps
from toolbridge.core.messages import Call, Foreign, Reference, Result, Tool, ToolChoice
from toolbridge.translate import RequestOptions, plan

ORIGIN = "openai_responses"
USER = {"role": "user", "content": "hi"}
SEARCH = {
    "type": "tool_search", "execution": "client", "description": "Finds tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}  # fmt: skip
OFFERS = [{"type": "local_shell"}, {"type": "shell"}, {"type": "apply_patch"}, SEARCH]
NAMES = ["local_shell", "shell", "apply_patch", "tool_search"]
OTHERS = sorted({*codecs.names()} - {ORIGIN})

ITEMS = {
    "local_shell": {
        "type": "local_shell_call", "id": "lsh_1", "call_id": "c1", "status": "completed",
        "action": {"type": "exec", "command": ["ls", "-l"], "env": {"A": "b"}, "timeout_ms": 9},
    },
    "shell": {
        "type": "shell_call", "id": "sh_1", "call_id": "c1", "status": "completed",
        "action": {"commands": ["ls", "pwd"], "timeout_ms": 9, "max_output_length": None},
    },
    "apply_patch": {
        "type": "apply_patch_call", "id": "apc_1", "call_id": "c1", "status": "completed",
        "operation": {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b\n"},
    },
    "tool_search": {
        "type": "tool_search_call", "id": "tsc_1", "call_id": "c1", "status": "completed",
        "execution": "client", "arguments": {"query": "mail"},
    },
}  # fmt: skip
ARGUMENTS = {
    "local_shell": {"command": ["ls", "-l"], "env": {"A": "b"}, "timeout_ms": 9},
    "shell": {"commands": ["ls", "pwd"], "timeout_ms": 9},
    "apply_patch": {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b\n"},
    "tool_search": {"query": "mail"},
}
RAN = {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}


def decode(*input, tools=OFFERS, **fields):
    body = {"model": "m", "input": [USER, *input], "tools": tools, **fields}
    return CODEC.decode_request(json.dumps(body).encode())


def planned(name, *input, **fields):
    request = decode(*input, **fields)
    return plan(request, codecs.load(name), Target(model="m"), RequestOptions())


def asked(tools=OFFERS):
    return AnswerContext(decode(tools=tools), at=1_790_000_000.5)


def called(name, arguments, tools=OFFERS):
    """The story of an answer that is one call, told with whatever cuts."""
    story = Story(asked(tools))
    story.tell(story.draft.call("a", name=name, id="c1"))
    for piece in arguments if isinstance(arguments, list) else [dumps(arguments)]:
        story.tell(story.draft.arguments("a", piece))
    return story.tell(story.draft.end("a")).tell(story.draft.finish("end"))


def frames(story):
    lines = story.data.decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


# ── requests ──


@every_row("raw", OFFERS, ids=NAMES)
def test_a_built_in_tool_has_a_schema_of_ours_and_its_own_words(raw):
    (tool,) = decode(tools=[raw]).tools
    assert tool.name == raw["type"]
    assert tool.hosted is None
    assert tool.native == raw
    assert tool.description
    assert tool.schema["type"] == "object"


def test_a_search_keeps_what_the_client_says_of_it():
    (tool,) = decode(tools=[SEARCH]).tools
    assert (tool.description, tool.schema) == (SEARCH["description"], SEARCH["parameters"])


@every_row("name", OTHERS)
def test_built_in_tools_are_functions_elsewhere_and_nothing_is_lost(name):
    ready = planned(name)
    assert not [loss for loss in ready.losses if loss.what.startswith("tools")]
    back = codecs.load(name).decode_request(dumps(ready.outgoing.body).encode(), model="m")
    assert [tool.name for tool in back.tools] == NAMES
    assert all(tool.description and tool.schema["properties"] for tool in back.tools)


@every_row(
    "raw",
    [
        {"type": "web_search"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "tool_search", "execution": "server"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
    ],
    ids=lambda raw: raw["type"],
)
@every_row("name", OTHERS)
def test_a_tool_that_the_server_runs_stays_a_loss(name, raw):
    assert [loss.what for loss in planned(name, tools=[raw]).losses] == ["tools.0"]


def test_built_in_tools_go_home_as_they_came():
    assert planned(ORIGIN).outgoing.body["tools"] == OFFERS


def test_a_function_of_the_same_name_wins():
    function = {"type": "function", "name": "shell", "parameters": {"type": "object"}}
    request = decode(tools=[{"type": "shell"}, function])
    hosted, plain = request.tools
    assert hosted == Tool("shell", origin=ORIGIN, hosted={"type": "shell"})
    assert plain.schema == function["parameters"]
    story = called("shell", {"commands": ["ls"]}, tools=[{"type": "shell"}, function])
    assert story.last["output"][0]["type"] == "function_call"


@pytest.mark.parametrize("type", ["shell", "apply_patch"])
def test_a_built_in_tool_may_be_chosen(type):
    request = decode(tool_choice={"type": type})
    assert request.tool_choice == ToolChoice("named", (type,))
    assert planned("openai_chat", tool_choice={"type": type}).outgoing.body["tool_choice"] == {
        "type": "function", "function": {"name": type},
    }  # fmt: skip
    assert planned(ORIGIN, tool_choice={"type": type}).outgoing.body["tool_choice"] == {
        "type": type
    }


# ── history ──


@every_row("name", NAMES)
def test_a_call_of_a_built_in_tool_is_a_call(name):
    call = decode(ITEMS[name]).turns[1].content[0]
    assert isinstance(call, Call)
    assert (call.id, call.name, call.arguments) == ("c1", name, ARGUMENTS[name])


@every_row(
    ("output", "text", "is_error"),
    [
        ({"type": "local_shell_call_output", "call_id": "c1", "output": "a"}, "a", False),
        ({"type": "shell_call_output", "call_id": "c1", "output": [RAN]}, "a\nExit code: 0", False),
        (
            {"type": "shell_call_output", "call_id": "c1", "output": [
                {"stdout": "", "stderr": "no\n", "outcome": {"type": "exit", "exit_code": 2}},
                {"stdout": "b", "stderr": "", "outcome": {"type": "timeout"}},
            ]},
            "Errors:\nno\nExit code: 2\n\nb\nIt ran out of time.",
            False,
        ),
        ({"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"}, "completed", False),
        (
            {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": "no"},
            "no",
            True,
        ),
    ],
)  # fmt: skip
def test_an_output_of_a_built_in_tool_is_a_result(output, text, is_error):
    (result,) = decode(output).turns[1].content
    assert isinstance(result, Result)
    assert result.call_id == "c1"
    assert [part.text for part in result.content] == [text]
    assert result.is_error is is_error


def test_an_output_may_name_the_item_instead_of_the_call():
    output = {"type": "local_shell_call_output", "id": "lsh_1", "output": "a"}
    turns = decode(ITEMS["local_shell"], output).turns
    assert turns[2].content[0].call_id == turns[1].content[0].id == "c1"
    assert planned(ORIGIN, ITEMS["local_shell"], output).outgoing.body["input"][1:] == [
        ITEMS["local_shell"], output,
    ]  # fmt: skip


def test_a_call_without_its_own_id_goes_by_its_item():
    item = {name: value for name, value in ITEMS["local_shell"].items() if name != "call_id"}
    output = {"type": "function_call_output", "call_id": "lsh_1", "output": "a"}
    turns = decode(item, output).turns
    assert turns[1].content[0].id == turns[2].content[0].call_id == "lsh_1"


@every_row("tool", ["local_shell", "shell", "apply_patch"])
@every_row("name", OTHERS)
def test_history_is_calls_and_results_elsewhere(name, tool):
    output = {"type": BUILTINS[tool].output, "call_id": "c1", "status": "completed"}
    output["output"] = [RAN] if tool == "shell" else "a"
    ready = planned(name, ITEMS[tool], output)
    assert ready.losses == ()
    back = codecs.load(name).decode_request(dumps(ready.outgoing.body).encode(), model="m")
    (call,) = (part for turn in back.turns for part in turn.content if isinstance(part, Call))
    (result,) = (part for turn in back.turns for part in turn.content if isinstance(part, Result))
    assert (call.name, call.arguments) == (tool, ARGUMENTS[tool])
    assert "a" in result.content[0].text


def test_what_the_server_ran_in_a_container_is_no_call():
    place = {"environment": {"type": "container_reference", "container_id": "x"}}
    output = {"type": "shell_call_output", "call_id": "c1", "output": [RAN]}
    turns = decode(ITEMS["shell"] | place, output).turns
    assert [type(turn.content[0]) for turn in turns[1:]] == [Foreign, Foreign]


def test_an_item_whose_call_was_changed_asks_for_the_change():
    request = decode(ITEMS["shell"])
    user, turn = request.turns
    call = Call("c1", "shell", {"commands": ["true"]}, opaque=turn.content[0].opaque)
    changed = CODEC.encode_request(
        type(request)("m", turns=(user, type(turn)("assistant", (call,))), origin=ORIGIN), Target()
    )
    assert changed.body["input"][-1] == ITEMS["shell"] | {"action": {"commands": ["true"]}}


# ── searches ──

FOUND = {
    "type": "tool_search_output", "call_id": "c1", "execution": "client", "status": "completed",
    "tools": [
        {"type": "function", "name": "mail", "description": "Sends.", "parameters": {"type": "object"}},
        {"type": "namespace", "name": "cal", "description": "d", "tools": [
            {"type": "function", "name": "add", "parameters": {"type": "object"}},
        ]},
        "strange",
    ],
}  # fmt: skip


def test_what_a_search_found_is_on_offer_elsewhere():
    ready = planned("anthropic", ITEMS["tool_search"], FOUND)
    offered = [tool["name"] for tool in ready.outgoing.body["tools"]]
    assert {"mail", "cal__add"} <= {*offered}
    result = decode(ITEMS["tool_search"], FOUND).turns[2].content[0]
    assert result.content[0].text == "Tools found: 2."
    assert result.content[1:] == (Reference("mail"), Reference("cal__add"))


@pytest.mark.parametrize("name", ["openai_chat", "gemini", "ollama"])
def test_what_a_search_found_can_be_called_where_nobody_searches(name):
    ready = planned(name, ITEMS["tool_search"], FOUND)
    back = codecs.load(name).decode_request(dumps(ready.outgoing.body).encode(), model="m")
    assert [tool.name for tool in back.tools] == [*NAMES, "mail", "cal__add"]


def test_what_a_search_found_goes_home_in_its_output_alone():
    body = planned(ORIGIN, ITEMS["tool_search"], FOUND).outgoing.body
    assert body["tools"] == OFFERS
    assert body["input"][1:] == [ITEMS["tool_search"], FOUND]


def test_a_call_of_a_found_tool_has_its_namespace():
    story = Story(AnswerContext(decode(ITEMS["tool_search"], FOUND), at=1.0))
    story.tell(story.draft.call("a", name="cal__add", id="c2")).tell(story.draft.finish("end"))
    (item,) = story.last["output"]
    assert (item["name"], item["namespace"]) == ("add", "cal")


# ── answers ──


@every_row("name", NAMES)
def test_a_call_of_a_built_in_tool_is_the_item_that_the_client_runs(name):
    story = called(name, ARGUMENTS[name])
    (done,) = (f["item"] for f in frames(story) if f["type"] == "response.output_item.done")
    own = {"id": done["id"]}
    wanted = ITEMS[name] | own
    if name == "shell":
        wanted |= {"action": ARGUMENTS["shell"]}
    assert done == wanted
    assert done["id"].startswith(f"{BUILTINS[name].prefix}_")
    assert story.last["output"] == [done]
    whole = json.loads(encode_message(collect(story.events), asked()))
    assert whole["output"] == [done]


@every_row("name", NAMES)
def test_pieces_make_the_same_item(name):
    assert called(name, [*dumps(ARGUMENTS[name])]).data == called(name, ARGUMENTS[name]).data


def test_the_commands_of_a_shell_are_told_one_by_one():
    told = [f for f in frames(called("shell", {"commands": ["ls", "pwd"]})) if "shell" in f["type"]]
    place = {"output_index": 0}
    steps = [
        {"type": f"response.shell_call_command.{step}", **place, "command_index": n, **fields}
        for n, command in enumerate(["ls", "pwd"])
        for step, fields in [
            ("added", {"command": ""}), ("delta", {"delta": command}), ("done", {"command": command}),
        ]
    ]  # fmt: skip
    assert [{k: v for k, v in f.items() if k != "sequence_number"} for f in told] == steps


@every_row("name", NAMES)
def test_events_are_numbered_in_their_order(name):
    numbers = [frame["sequence_number"] for frame in frames(called(name, ARGUMENTS[name]))]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("name", NAMES)
def test_the_official_client_knows_every_event(name):
    responses = pytest.importorskip("openai.types.responses")
    pydantic = pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(responses.ResponseStreamEvent)
    for frame in frames(called(name, ARGUMENTS[name])):
        event = adapter.validate_python(frame)
        assert event.type == frame["type"]
        if frame["type"].startswith("response.output_item"):
            assert event.item.type == BUILTINS[name].call


@every_row(
    ("name", "arguments", "content"),
    [
        ("local_shell", {"command": "ls -l"}, {"type": "exec", "command": ["bash", "-lc", "ls -l"], "env": {}}),
        ("local_shell", {"command": ["ls | wc"]}, {"type": "exec", "command": ["bash", "-lc", "ls | wc"], "env": {}}),
        ("local_shell", {"command": ["ls"], "timeout_ms": "soon"}, {"type": "exec", "command": ["ls"], "env": {}}),
        ("shell", {"commands": "ls"}, {"commands": ["ls"]}),
        ("shell", {"command": ["ls"], "timeout_ms": None}, {"commands": ["ls"]}),
        (
            "apply_patch",
            {"operation": {"type": "create_file", "path": "a", "diff": "+a"}},
            {"type": "create_file", "path": "a", "diff": "+a"},
        ),
        (
            "apply_patch",
            {"type": "delete_file", "path": "a", "diff": ""},
            {"type": "delete_file", "path": "a"},
        ),
    ],
)  # fmt: skip
def test_what_models_make_of_it_is_put_right(name, arguments, content):
    (item,) = called(name, arguments).last["output"]
    assert item["type"] == BUILTINS[name].call
    assert item[BUILTINS[name].content] == content


@every_row(
    ("name", "arguments"),
    [
        ("local_shell", {"command": []}),
        ("local_shell", {"command": 3}),
        ("shell", {"commands": [3]}),
        ("shell", {}),
        ("apply_patch", {"type": "rename_file", "path": "a"}),
        ("apply_patch", {"type": "update_file", "path": "a"}),
        ("apply_patch", {"type": "update_file", "diff": "x"}),
    ],
)
def test_a_call_that_no_built_in_tool_could_run_is_told_as_a_function_call(name, arguments):
    story = called(name, arguments)
    (item,) = story.last["output"]
    assert (item["type"], item["name"]) == ("function_call", name)
    assert json.loads(item["arguments"]) == arguments
    whole = json.loads(encode_message(collect(story.events), asked()))
    assert whole["output"] == [item]


@every_row("name", NAMES)
def test_a_cut_call_is_never_an_item_to_run(name):
    story = called(name, ['{"commands":["rm -r'])
    (item,) = story.last["output"]
    assert (item["type"], item["status"]) == ("function_call", "incomplete")


def test_a_call_that_fails_half_way_is_not_announced():
    story = Story(asked())
    story.tell(story.draft.call("a", name="shell", id="c1"))
    before = len(frames(story))
    story.tell(story.draft.arguments("a", '{"commands":["ls"]}'))
    assert len(frames(story)) == before == 2


# ── a model at this API, a client of another ──


def upstream(*frames):
    head = {"type": "response.created", "response": {"id": "resp_1", "model": "m"}}
    last = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
    told = b"".join(b"data: " + dumps(f).encode() + b"\n\n" for f in (head, *frames, last))
    events = grammar.run(StreamDecoder(Ids("x")), [told])
    grammar.check(events)
    return collect(events)


@every_row("name", NAMES)
def test_an_upstreams_item_is_a_call(name):
    item = ITEMS[name]
    begun = item | {"status": "in_progress"}
    message = upstream(
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    )
    (call,) = message.calls
    assert (call.id, call.name, call.arguments) == ("c1", name, ARGUMENTS[name])
    assert message.stop == "tool_use"


@pytest.mark.parametrize(
    "more",
    [
        {"status": "incomplete"},
        {"environment": {"type": "container_reference", "container_id": "x"}},
        {"action": None},
    ],
)
def test_what_nobody_but_the_upstream_runs_is_no_call(more):
    item = ITEMS["shell"] | more
    message = upstream({"type": "response.output_item.done", "output_index": 0, "item": item})
    assert message.content == (Foreign(ORIGIN, "shell_call", item),)


def test_a_field_that_is_newer_than_we_are_is_no_argument():
    item = ITEMS["shell"] | {"action": ITEMS["shell"]["action"] | {"stranger": 1}}
    message = upstream({"type": "response.output_item.done", "output_index": 0, "item": item})
    assert message.calls[0].arguments == ARGUMENTS["shell"]


def test_an_item_that_was_only_announced_says_nothing():
    begun = ITEMS["shell"] | {"status": "in_progress", "action": {"commands": []}}
    message = upstream({"type": "response.output_item.added", "output_index": 0, "item": begun})
    assert message.content == ()


@every_row("name", NAMES)
def test_an_item_is_told_again_to_a_client_of_this_api(name):
    message = upstream(
        {"type": "response.output_item.done", "output_index": 0, "item": ITEMS[name]}
    )
    (item,) = json.loads(encode_message(message, asked()))["output"]
    assert item["type"] == ITEMS[name]["type"]
    assert item["call_id"] == "c1"


@every_row("description", [None, "", 5, ["text"]])
def test_a_description_that_is_no_text_is_replaced_by_the_usual_one(description):
    usual = decode_builtin({"type": "apply_patch"})
    given = decode_builtin({"type": "apply_patch", "description": description})
    own = decode_builtin({"type": "apply_patch", "description": "mine"})
    assert given.description == usual.description != own.description == "mine"
