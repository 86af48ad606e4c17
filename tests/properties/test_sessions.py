"""The law of sessions: what the requests before have left changes no request.

A request is decoded, counted and planned after other requests of its session, and again by a
gateway that has seen none. Both give the same bytes, losses, names and counts.
"""

import json
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.properties.test_tool_schemas import APIS

from toolbridge import codecs
from toolbridge.accounting.count import estimate_request
from toolbridge.codecs.anthropic.known_messages import LARGE, MARK, MessageMemo, memo
from toolbridge.core.byte_memo import ByteMemo
from toolbridge.core.codec import Target
from toolbridge.core.encoded_turns import EncodedTurns
from toolbridge.core.errors import ClientError
from toolbridge.core.json import WrittenList, dump_bytes
from toolbridge.core.prefix_memo import PrefixMemo
from toolbridge.translate import RequestOptions, plan

TARGETS = (*APIS, "bedrock")
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["path"],
}
TOOLS = [{"name": name, "description": "é", "input_schema": SCHEMA} for name in ("read", "wri.te")]
BLIND = Target(model="m", capabilities=frozenset({"tools"}))
MARKED = {"cache_control": {"type": "ephemeral"}}
LONG_TEXT = 'Das Gateway liest 日本 und "Zeichen".\n' * 1500


def call(id, name="read", **arguments):
    return {"type": "tool_use", "id": id, "name": name, "input": arguments or {"path": "a"}}


def result(id, content="found", **more):
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def says(role, *content):
    return {"role": role, "content": [*content]}


def text(words):
    return {"type": "text", "text": words}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
REFUSED = "<tool_use_error>InputValidationError: path"
CANCELLED = "<tool_use_error>Sibling tool call errored</tool_use_error>"
PIECES = [
    [says("user", text("Go on."))],
    [{"role": "user", "content": "plain"}],
    [says("assistant", text("Well."))],
    [says("assistant", text("I read."), call("toolu_A")), says("user", result("toolu_A"))],
    [says("assistant", call("toolu_B", n=1)), says("user", result("toolu_B", REFUSED, is_error=True))],
    [says("assistant", call("toolu_C", path=1), call("toolu_D", "wri.te")),
     says("user", result("toolu_D"), text("both"), result("toolu_C"))],
    [says("assistant", call("toolu_C", path="a", n=True)), says("user", result("toolu_C"))],
    [says("assistant", call("toolu_C", path="a", n=1)), says("user", result("toolu_C"))],
    [says("assistant", call("i.d " * 20, "wri.te")), says("user", result("i.d " * 20))],
    [says("assistant", call("toolu_G", "go.ne")), says("user", result("toolu_G", [IMAGE]))],
    [says("assistant", call("toolu_open"))],
    [says("user", result("toolu_open"))],
    [says("user", result("toolu_none", [text("an orphan")]))],
    [says("user", call("toolu_U"))],
    [{"role": "system", "content": "a reminder"}],
    [says("assistant", {"type": "thinking", "thinking": "hm", "signature": "s"}, text(""))],
    [says("user", {"type": "new_block", "x": 1}, text("x"))],
    [says("assistant", text("")), {"role": "user", "content": "named", "name": "me"}],
    [says("assistant", call("toolu_S")), says("user", result("toolu_S", CANCELLED, is_error=True))],
]  # fmt: skip
ROUND = PIECES[3]


def session(*numbers):
    return [message for number in numbers for message in PIECES[number]]


def forget():
    """Clear everything that modules keep between requests, except lists of tools."""
    modules = [module for name, module in sys.modules.items() if name.startswith("toolbridge.")]
    for found in [value for module in modules for value in vars(module).values()]:
        if isinstance(found, EncodedTurns):
            found = found._memo  # noqa: PLW2901
        if isinstance(found, PrefixMemo | MessageMemo):
            found._kept.clear()
            found._size = 0
        elif isinstance(found, ByteMemo):
            found._young.clear()
            found._old.clear()


def body_of(messages, *, marked=True, compact=True, **fields):
    messages = [*messages]
    last = messages[-1]
    if marked and isinstance(last["content"], list) and last["content"]:
        *before, block = last["content"]
        messages[-1] = last | {"content": [*before, block | MARKED]}
    body = {
        "model": "m",
        "messages": messages,
        "max_tokens": 100,
        "system": [{"type": "text", "text": "You are é."}, {"type": "text", "text": "Be 日本."}],
        "tools": TOOLS,
    }
    separators = (",", ":") if compact else None
    return json.dumps(body | fields, separators=separators).encode()


def planned(data, before_each):
    """Return all that becomes of a request: its sent bytes, losses and names for every target."""
    before_each()
    try:
        request = codecs.load("anthropic").decode_request(data)
    except ClientError as error:
        return repr(error.problem)
    found = [dump_bytes(request)]
    for api in TARGETS:
        for target in (Target(model="m"), BLIND):
            before_each()
            ready = plan(request, codecs.load_target(api), target, RequestOptions())
            found += [dump_bytes(ready.outgoing.body), ready.losses, ready.names]
            found.append(estimate_request(request, family=api))
    return found


def check(bodies):
    forget()
    after_others = [planned(body, lambda: None) for body in bodies]
    for number, body in enumerate(bodies):
        assert planned(body, forget) == after_others[number], f"request {number}"


numbers = st.lists(st.integers(0, len(PIECES) - 1), max_size=5)


@settings(max_examples=25, deadline=None)
@given(first=numbers, growth=st.lists(numbers, min_size=1, max_size=3), compact=st.booleans())
@example(first=[], growth=[[10], [11], [3]], compact=True)
@example(first=[13], growth=[[3], [3], [10, 2, 11]], compact=True)
@example(first=[9], growth=[[3], [5]], compact=True)
@example(first=[6], growth=[[6], [7]], compact=False)
@example(first=[2, 12], growth=[[], [18, 3, 3, 3]], compact=True)
def test_a_session_that_grows_is_sent_as_if_each_request_were_the_first(first, growth, compact):
    messages = [*PIECES[0], *session(*first), *ROUND * 4]
    bodies = [body_of(messages, compact=compact)]
    for more in growth:
        messages = [*messages, *session(*more), *PIECES[0]]
        bodies.append(body_of(messages, compact=compact))
    check(bodies)


@settings(max_examples=15, deadline=None)
@given(changed=numbers.filter(bool), at=st.integers(0, 8))
def test_a_session_whose_history_changes_is_sent_as_it_is_now(changed, at):
    messages = [*PIECES[0], *ROUND * 5, *PIECES[0]]
    other = [*messages[:at], *session(*changed), *messages[at:]]
    cut = messages[at:]
    check([body_of(messages), body_of(other), body_of(cut), body_of(messages), body_of(other)])


def test_other_tools_and_other_settings_are_another_context():
    messages = [*PIECES[0], *session(5, 6, 7, 4) * 3, *PIECES[0]]
    strict = [tool | {"input_schema": {"type": "object", "properties": {}}} for tool in TOOLS]
    check([body_of(messages), body_of(messages, tools=strict), body_of(messages, tools=[])])


def test_other_quirks_are_another_context():
    data = body_of([*PIECES[0], *session(3) * 5, *PIECES[0]], tools=TOOLS[:1])
    request = codecs.load("anthropic").decode_request(data)
    ids = []
    for short in (False, True, False):
        target = Target(model="m", quirks={"nine_character_ids": short})
        sent = plan(request, codecs.load("openai_chat"), target, RequestOptions()).outgoing.body
        ids.append({message.get("tool_call_id", "") for message in sent["messages"]} - {""})
    assert ids[0] == ids[2] != ids[1]
    assert {len(id) for id in ids[1]} == {9}


def test_names_that_only_the_history_has_are_replaced_in_every_request():
    fresh = [says("assistant", call("toolu_F", "fresh")), says("user", result("toolu_F"))]
    messages = [*PIECES[0], *session(9), *ROUND * 4, *fresh]
    for _ in range(2):
        request = codecs.load("anthropic").decode_request(body_of(messages, tools=TOOLS[:1]))
        ready = plan(request, codecs.load("openai_chat"), Target(model="m"), RequestOptions())
        assert [*ready.names.values()] == ["go.ne"]


# ── large bodies, whose known messages are compared ──────────────────────────

LARGE_ONE = [says("user", text(LONG_TEXT)), *ROUND * 6, *PIECES[0]]


def test_a_large_body_grows():
    more = [*LARGE_ONE, *ROUND, *PIECES[0]]
    bodies = [body_of(one) for one in (LARGE_ONE, LARGE_ONE, more, more[:9], [*more, *ROUND])]
    assert all(len(body) > LARGE for body in bodies)
    check(bodies)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(b'"messages":[', b'"x":{"messages":[').replace(b'"max_', b'"y":{},"max_'),
        lambda body: body.replace(b'"max_tokens"', b'"messages":[{"role":"user","content":"hi"}],"max_tokens"'),
        lambda body: body.replace(b'"model"', b'"metadata":{"messages":[]},"model"'),
        lambda body: body.replace(b'"max_tokens":100', b'"max_tokens":"many"'),
        lambda body: body.replace(b'"max_tokens"', b'"new_field":1,"max_tokens"'),
        lambda body: body.replace(b'"found"', b"7", 1),
        lambda body: body[:-20],
        lambda body: body[: len(body) // 2],
        lambda body: body.replace(b'{"role":"assistant"', MARK + b',{"role":"assistant"', 3),
        lambda body: b'{"metadata":{"messages":[' + body.partition(b'"messages":[')[2].partition(b'],"max')[0]
        + b']},"messages":[' + MARK + b'],"max_tokens":5,"model":"m"}',
    ],
    ids=["nested", "twice", "before", "invalid", "unknown", "broken", "cut", "half", "mark", "moved"],
)  # fmt: skip
def test_a_large_body_that_only_looks_known_is_read_as_it_is(change):
    body = body_of(LARGE_ONE)
    changed = change(body)
    assert changed != body
    check([body, body, changed, body])


def test_known_messages_are_not_parsed_again():
    forget()
    decode = codecs.load("anthropic").decode_request
    first = decode(body_of(LARGE_ONE))
    again = decode(body_of([*LARGE_ONE, *ROUND, *PIECES[0]]))
    assert [one is two for one, two in zip(first.turns, again.turns, strict=False)] == [
        *[True] * (len(first.turns) - 1), False
    ]  # fmt: skip
    (known,) = next(iter(memo._kept.values()))
    assert len(known.turns) == len(again.turns) - 3
    assert known.json in body_of([*LARGE_ONE, *ROUND, *PIECES[0]])


@pytest.mark.parametrize("api", ["ollama", "openai_chat"])
def test_the_json_of_known_messages_is_that_of_the_messages(api):
    forget()
    request = codecs.load("anthropic").decode_request(body_of(LARGE_ONE))
    for _ in range(2):
        ready = plan(request, codecs.load(api), Target(model="m"), RequestOptions())
        messages = ready.outgoing.body["messages"]
        assert isinstance(messages, WrittenList)
        assert messages.end > messages.begin == 1
        assert dump_bytes({"messages": messages}) == dump_bytes({"messages": [*messages]})


@pytest.mark.parametrize("api", TARGETS)
def test_a_plan_changes_nothing_that_is_kept(api):
    data = body_of([*PIECES[0], *session(5, 6, 4, 8) * 3, *PIECES[0]])
    decode = codecs.load("anthropic").decode_request
    before = None
    for _ in range(3):
        ready = plan(decode(data), codecs.load_target(api), Target(model="m"), RequestOptions())
        sent = dump_bytes(ready.outgoing.body)
        assert before in (None, sent)
        before = sent
        for name, value in json.loads(sent).items():
            assert ready.outgoing.body[name] == value
