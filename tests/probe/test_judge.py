"""Answers to probe tasks are judged as a client gets them."""

import msgspec
from tests.tables import every_row

from toolbridge.core.messages import Call, Message, Problem, Text
from toolbridge.probe.judge import judge
from toolbridge.probe.tasks import KINDS, TASKS

BY_ID = {task.id: task for task in TASKS}


def answer(*parts: Text | Call) -> Message:
    return Message(content=parts, stop="end")


def call(name: str, /, **arguments) -> Call:
    return Call("call_1", name, arguments)


def test_there_are_three_tasks_of_each_kind():
    kinds = [task.kind for task in TASKS]
    assert {kind: kinds.count(kind) for kind in KINDS} == dict.fromkeys(KINDS, 3)
    assert len(BY_ID) == 24


@every_row(
    ("task", "message", "right", "valid"),
    [
        ("weather", answer(call("get_weather", city="Paris")), True, True),
        ("weather", answer(call("get_weather", city="paris, France")), True, True),
        ("weather", answer(call("get_weather", city="Rome")), False, True),
        ("weather", answer(call("get_weather", town="Paris")), False, False),
        ("weather", answer(call("get_wether", city="Paris")), False, False),
        ("weather", answer(Call("c", "get_weather", raw="{city")), False, False),
        ("weather", answer(Text("It is warm in Paris.")), False, False),
        ("weather", answer(*[call("get_weather", city="Paris")] * 2), False, True),
        ("two-cities", answer(call("get_weather", city="Rome"), call("get_weather", city="Berlin")), True, True),
        ("two-cities", answer(call("get_weather", city="Berlin")), False, True),
        ("sum", answer(Text("It is four.")), True, None),
        ("sum", answer(Text("It is 5.")), False, None),
        ("sum", answer(call("search", query="2 + 2")), False, None),
        ("greeting", answer(Text("  ")), False, None),
        ("person", answer(Text('{"name": "Ada", "age": 36}')), True, True),
        ("person", answer(Text('{"name": "Ada", "age": "36"}')), False, False),
        ("person", answer(Text('{"name": "Bob", "age": 36}')), False, True),
        ("person", answer(Text("Ada is 36.")), False, False),
        ("list", answer(Text('{"cities": ["Kyoto", "Osaka", "Nara"]}')), False, True),
    ],
)  # fmt: skip
def test_an_answer_is_judged_by_its_task(task, message, right, valid):
    verdict = judge(BY_ID[task], message)
    assert (verdict.right, verdict.valid) == (right, valid)
    assert bool(verdict.why) is not right


def test_the_content_of_a_file_must_be_exact_except_at_its_end():
    task = BY_ID["program"]
    content = task.calls[0].arguments["content"]
    assert judge(task, answer(call("write_file", path="greet.py", content=content.rstrip()))).right
    changed = content.replace('"', "'", 1)
    assert not judge(task, answer(call("write_file", path="greet.py", content=changed))).right


@every_row("mark", ["<think>", "</tool_call>", "<|im_end|>", "◁think▷", "<｜end｜>"])
def test_markup_in_the_text_is_a_leak(mark):
    verdict = judge(BY_ID["greeting"], answer(Text(f"Hello! {mark}")))
    assert (verdict.right, verdict.leak) == (False, mark.removesuffix(">") if "|" not in mark and "｜" not in mark and "◁" not in mark else mark)  # fmt: skip


def test_a_problem_is_the_reason():
    message = msgspec.structs.replace(answer(), problem=Problem("overloaded", "it is busy"))
    verdict = judge(BY_ID["weather"], message)
    assert (verdict.right, verdict.valid, verdict.why) == (False, False, "it is busy")
