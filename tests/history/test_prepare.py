"""The whole pass, as laws."""

import re
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.work import calls_made

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Call, Image, Request, Result, Text, Thinking, Tool, Turn
from toolbridge.history import prepare

LOOSE = Rules()
STRICT = Rules(
    id_pattern=r"[A-Za-z0-9_-]+",
    id_length=40,
    name_pattern=r"[A-Za-z0-9_-]+",
    name_length=24,
    alternate=True,
    system_in_place=False,
    empty_text=False,
    may_end_with_assistant=False,
)
TARGETS = [
    LOOSE,
    STRICT,
    Rules(pairs=False),
    Rules(alternate=True),
    Rules(system_in_place=False, empty_text=False),
    Rules(id_pattern=r"[a-z0-9]{9}", id_length=9, may_end_with_assistant=False),
]

ids = st.sampled_from(["a", "b", "", "functions.Bash:0", "x" * 50, "call_é"])
names = st.sampled_from(["Bash", "Read", "mcp__a_long_server__and_its_tool", "räd", ""])
texts = st.sampled_from(
    ["hello", "two words", "", "  ", "\n", "<system-reminder>x</system-reminder>"]
)
text_parts = st.builds(Text, texts)
images = st.builds(Image, data=st.just("aGk="), media_type=st.just("image/png"))
calls = st.builds(Call, ids, names, st.sampled_from([{}, {"a": 1}]))
contents = st.lists(st.one_of(text_parts, images), max_size=2).map(tuple)
results = st.builds(Result, ids, contents, st.booleans())
user_turns = st.builds(
    Turn,
    st.just("user"),
    st.lists(st.one_of(text_parts, results, images), max_size=4).map(tuple),
)
assistant_turns = st.builds(
    Turn,
    st.just("assistant"),
    st.lists(st.one_of(text_parts, calls, st.builds(Thinking, texts)), max_size=4).map(tuple),
)
system_turns = st.builds(Turn, st.just("system"), st.lists(text_parts, max_size=2).map(tuple))
requests = st.builds(
    Request,
    st.just("m"),
    st.lists(st.one_of(user_turns, assistant_turns, system_turns), max_size=8).map(tuple),
    tools=st.lists(st.builds(Tool, names), max_size=3).map(tuple),
)
targets = st.sampled_from(TARGETS)


def faults(request: Request, rules: Rules, *, sequential: bool = False) -> list[str]:
    """Say what is illegal, by a reading of the rules that shares no code with the pass."""
    found = []
    turns = request.turns
    for number, turn in enumerate(turns):
        wanted = [part.id for part in turn.content if isinstance(part, Call)]
        after = turns[number + 1].content if number + 1 < len(turns) else ()
        got = [part.call_id for part in after if isinstance(part, Result)]
        if rules.pairs and (wanted or got) and wanted != got:
            found.append(f"{number}: calls {wanted} answered by {got}")
        if rules.pairs and any(
            not isinstance(p, Result) and isinstance(q, Result) for p, q in pairwise(turn.content)
        ):
            found.append(f"{number}: a result behind other content")
        if sequential and len(wanted) > 1:
            found.append(f"{number}: parallel calls")
        if turn.role == "system" and not rules.system_in_place:
            found.append(f"{number}: a system turn")
        for part in turn.content:
            if isinstance(part, Call | Result):
                id = part.id if isinstance(part, Call) else part.call_id
                if not re.fullmatch(rules.id_pattern, id) or 0 < rules.id_length < len(id):
                    found.append(f"{number}: id {id!r}")
                name = part.name
                if isinstance(part, Result) and not rules.pairs and not name:
                    continue
                if not re.fullmatch(rules.name_pattern, name) or 0 < rules.name_length < len(name):
                    found.append(f"{number}: name {name!r}")
            if isinstance(part, Text) and not rules.empty_text and not part.text.strip():
                found.append(f"{number}: an empty text")
        if not rules.empty_text and not turn.content:
            found.append(f"{number}: an empty turn")
    all_ids = [part.id for turn in turns for part in turn.content if isinstance(part, Call)]
    if len(set(all_ids)) != len(all_ids):
        found.append("ids repeat")
    said = [turn.role for turn in turns if turn.role != "system"]
    if rules.alternate:
        if any(a.role == b.role for a, b in pairwise(turns)):
            found.append("same roles side by side")
        if said and said[0] != "user":
            found.append("the assistant speaks first")
    if turns and turns[-1].role == "assistant" and not rules.may_end_with_assistant:
        found.append("the assistant speaks last")
    return found


@given(requests, targets, st.booleans())
def test_every_transcript_becomes_legal(request, rules, sequential):
    legal = msgspec.structs.replace(rules, pairs=rules.pairs or sequential)
    prepared = prepare(request, rules, sequential=sequential)
    assert faults(prepared.request, legal, sequential=sequential) == []


@given(requests, targets, st.booleans())
def test_a_second_pass_changes_nothing(request, rules, sequential):
    once = prepare(request, rules, sequential=sequential)
    twice = prepare(once.request, rules, sequential=sequential)
    assert twice.request == once.request
    assert twice.names == {}
    assert twice.losses == ()


@given(requests, targets)
def test_what_one_pass_made_legal_for_the_strictest_is_legal_for_others_unchanged(request, rules):
    legal = prepare(request, STRICT).request
    if rules.id_length != 9:
        assert prepare(legal, rules).request == legal


@given(requests, targets, st.booleans())
def test_no_words_are_lost(request, rules, sequential):
    prepared = prepare(request, rules, sequential=sequential).request
    before, after = _words(request), " ".join(_words(prepared))
    assert [word for word in before if word not in after] == []
    assert after.count("hello") == " ".join(before).count("hello")


@given(requests, targets)
def test_everything_but_results_keeps_its_order(request, rules):
    def kept(turns):
        parts = [part for turn in turns for part in turn.content]
        return [
            part.text if isinstance(part, Thinking) else part.arguments
            for part in parts
            if isinstance(part, Call | Thinking)
        ]

    assert kept(prepare(request, rules).request.turns) == kept(request.turns)


@given(requests, targets)
def test_new_names_lead_back_to_the_clients_own(request, rules):
    prepared = prepare(request, rules)
    back = tuple(prepared.names.get(tool.name, tool.name) for tool in prepared.request.tools)
    assert back == tuple(tool.name for tool in request.tools)


def _words(request):
    found = []
    for turn in request.turns:
        for part in turn.content:
            inner = part.content if isinstance(part, Result) else (part,)
            found += [p.text.strip() for p in inner if isinstance(p, Text) and p.text.strip()]
    return found


LEGAL = Request(
    "m",
    (
        Turn("user", (Text("Look."),)),
        Turn("assistant", (Thinking("hm"), Text("I look."), Call("a", "Read", {"p": 1}))),
        Turn("user", (Result("a", (Text("found"),), name="Read"), Text("and now?"))),
        Turn("assistant", (Call("b", "Read"), Call("c", "Bash"))),
        Turn("user", (Result("b", name="Read"), Result("c", (Text("x"),), True, "Bash"))),
    ),
    (Text("Be kind."),),
    (Tool("Read"), Tool("Bash", hosted={"type": "bash"})),
)


@pytest.mark.parametrize("rules", [LOOSE, STRICT, Rules(pairs=False)])
def test_a_legal_transcript_comes_back_equal(rules):
    prepared = prepare(LEGAL, rules)
    assert prepared.request == LEGAL
    assert prepared.losses == ()
    assert prepared.names == {}


def test_an_empty_transcript_stays_empty():
    assert prepare(Request("m"), STRICT).request == Request("m")


def test_a_field_that_is_no_transcript_is_never_touched():
    request = msgspec.structs.replace(LEGAL, max_tokens=5, extra={"x": 1}, user="u")
    assert prepare(request, STRICT).request == request


def test_twice_the_transcript_takes_about_twice_the_work():
    def work(turns):
        request = Request("m", LEGAL.turns * turns, tools=LEGAL.tools)
        return calls_made(lambda: prepare(request, STRICT, sequential=True))

    assert work(400) <= 2.2 * work(200)
