"""What the model is told."""

import pytest
from tests.structured.play import ACTION, BOOK, SEARCH, contract

from toolbridge.core.messages import Sampling, Text, Turn
from toolbridge.structured.contract import OfferedTool, ToolReply
from toolbridge.structured.flaws import Flaw
from toolbridge.structured.grammar import Grammar
from toolbridge.structured.pieces import FrameClosed
from toolbridge.structured.sentinels import (
    Sentinel,
    may_begin_sentinel,
    read_sentinel,
    write_begin,
    write_end,
    write_frame,
)


def system_of(**changes: object) -> str:
    agreed = contract(**changes)
    return agreed.request(agreed.turns).system[-1].text


def frames_in(text: str) -> list[tuple[str, str, str]]:
    grammar = Grammar()
    pieces = grammar.feed(text) + grammar.close()
    return [(p.kind, p.id, p.name) for p in pieces if isinstance(p, FrameClosed)]


@pytest.mark.req("TF-47")
def test_the_model_is_shown_frames_that_our_own_grammar_reads():
    assert frames_in(system_of()) == [
        ("object", "O1", "Action"),
        ("tool", "T1", "places.search"),
        ("result", "R1", "AssistantReply"),
    ]


@pytest.mark.req("TF-47")
def test_only_what_is_agreed_is_shown():
    text = system_of(objects=(), tools=())
    assert frames_in(text) == [("result", "R1", "AssistantReply")]
    assert "Tools" not in text
    assert "Objects" not in text
    assert "tool" not in text


def test_every_tool_and_object_is_named_with_its_schema():
    text = system_of(objects=("Action", "Grid"))
    for name in (SEARCH.name, BOOK.name, "Action", "Grid", "AssistantReply"):
        assert f"\n- {name}" in text
    assert '"required":["place_id","time"]' in text
    assert "$schema" not in text


def test_dollars_in_schemas_and_words_stay_as_they_are():
    offer = OfferedTool("x", "costs $5 or $name", {"type": "object", "$defs": {}})
    assert "costs $5 or $name" in system_of(tools=(offer,))
    request = contract().repair_request(
        "Action", {"$defs": {}}, "$written $$", [Flaw(".", "$flaws")]
    )
    assert "$written $$" in request.turns[0].content[0].text
    assert "$flaws" in request.turns[0].content[0].text


def test_the_callers_own_words_come_first():
    agreed = contract(system="Be kind.")
    first, second = agreed.request(agreed.turns).system
    assert first == Text("Be kind.")
    assert second.text.startswith("Your answer")


@pytest.mark.req("TF-36")
def test_the_request_has_the_callers_settings():
    agreed = contract(sampling=Sampling(temperature=0.2, seed=42), max_tokens=384, model="m")
    request = agreed.request(agreed.turns)
    assert request.sampling == Sampling(temperature=0.2, seed=42)
    assert (request.max_tokens, request.model, request.stream) == (384, "m", True)
    assert (request.tools, request.output) == ((), None)


def test_the_result_is_asked_for_in_a_turn_of_its_own_after_the_assistants():
    agreed = contract()
    said = Turn("assistant", (Text("Hm."),))
    turns = agreed.result_request((*agreed.turns, said)).turns
    assert [turn.role for turn in turns] == ["user", "assistant", "user"]
    merged = agreed.result_request(agreed.turns).turns
    assert [turn.role for turn in merged] == ["user"]
    assert len(merged[0].content) == 2


def test_results_of_several_tools_are_told_one_after_the_other():
    text = contract().results_text([ToolReply("T1", "a", 1), ToolReply("T2", "b", {"x": None})])
    assert "tool call T1 (a), as JSON:\n1\n" in text
    assert 'tool call T2 (b), as JSON:\n{"x":null}\n' in text


@pytest.mark.parametrize("name", ["a.b/c:d", "x" * 128])
def test_a_format_is_named_as_every_api_takes_it(name):
    agreed = contract(mode="native")
    agreed.schemas.extended({name: {}})
    own = contract(mode="native", schemas=agreed.schemas.extended({name: {}}), result=name)
    output = own.request(own.turns).output
    assert output.name == name.replace(".", "_").replace("/", "_").replace(":", "_")[:64]


# ── sentinels ────────────────────────────────────────────────────────────────


@pytest.mark.req("TF-12", "TF-13", "TF-14")
@pytest.mark.parametrize("kind", ["object", "tool", "result"])
def test_a_sentinel_is_read_as_it_was_written(kind):
    begin, end = write_begin(kind, "a.1", "n:1"), write_end(kind, "a.1")
    assert read_sentinel(f"x{begin}", 1) == Sentinel(kind, "a.1", "n:1", len(begin))
    assert read_sentinel(f"x{end}", 1) == Sentinel(kind, "a.1", size=len(end))


@pytest.mark.parametrize("kind", ["object", "tool", "result"])
def test_every_beginning_of_a_sentinel_may_become_one(kind):
    for text in (write_begin(kind, "i" * 64, "n" * 128), write_end(kind, "i" * 64)):
        for size in range(1, len(text)):
            assert read_sentinel(text[:size], 0) is None
            assert may_begin_sentinel(text[:size], 0)
            assert not may_begin_sentinel(f"{text[:size]}!", 0)


@pytest.mark.req("TF-17")
def test_brackets_in_the_strings_of_a_frame_that_we_write_are_escaped():
    text = write_frame("object", "O1", "Action", ACTION.replace("p1", write_end("object", "O1")))
    assert (text.count("⟦"), text.count("⟧")) == (2, 2)
    assert (text.count(r"\u27E6"), text.count(r"\u27E7")) == (1, 1)
    assert frames_in(text) == [("object", "O1", "Action")]
