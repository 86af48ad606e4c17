import sys

import msgspec

from toolbridge.core.byte_memo import ByteMemo
from toolbridge.core.messages import Tool
from toolbridge.core.shared_tools import decoded_once, once_per_list, shared_tools


def test_a_memo_keeps_no_more_bytes_than_it_may():
    memo = ByteMemo(1000)
    for number in range(10_000):
        memo.put(b"%0100d" % number, number)
    kept = [number for number in range(10_000) if memo.get(b"%0100d" % number) is not None]
    assert 5 <= len(kept) <= 10
    assert kept[-1] == 9999


def test_a_memo_keeps_what_is_used():
    memo = ByteMemo(1000)
    memo.put(b"used", 1)
    for number in range(100):
        memo.put(b"%0100d" % number, number)
        assert memo.get(b"used") == 1


def test_a_memo_keeps_no_key_that_is_larger_than_half_of_it():
    memo = ByteMemo(1000)
    memo.put(b"small", 1)
    memo.put(b"x" * 501, 2)
    assert memo.get(b"x" * 501) is None
    assert memo.get(b"small") == 1


def test_a_function_runs_once_per_list_and_per_argument():
    seen = []

    @once_per_list
    def names(tools, suffix=""):
        seen.append(suffix)
        return [tool.name + suffix for tool in tools]

    tools = shared_tools([Tool("a")])
    assert names(tools, "x") is names(tools, "x")
    assert names(tools, "y") == ["ay"]
    assert names(shared_tools([Tool("b")]), "x") == ["bx"]
    assert names((Tool("a"),), "x") == names((Tool("a"),), "x") == ["ax"]
    assert seen == ["x", "y", "x", "x", "x"]


def test_none_is_a_result_too():
    seen = []

    @once_per_list
    def nothing(tools):
        seen.append(tools)

    tools = shared_tools([Tool("a")])
    assert nothing(tools) is nothing(tools) is None
    assert len(seen) == 1


def test_a_list_keeps_a_bounded_number_of_values():
    @once_per_list
    def sized(tools, number):
        return len(tools) + number

    tools = shared_tools([Tool("a")])
    for number in range(1000):
        assert sized(tools, number) == number + 1
    assert len(tools.derived) <= 64


class Body(msgspec.Struct):
    tools: list[msgspec.Raw]


def test_a_kept_tool_does_not_hold_the_body_of_its_request():
    @decoded_once
    def decode(given):
        return [Tool("a", source=raw) for raw in given]

    body = b'{"tools":[{"name":"a"}],"text":"' + b"x" * 100_000 + b'"}'
    before = sys.getrefcount(body)
    tools = decode(msgspec.json.decode(body, type=Body).tools)
    assert bytes(tools[0].source) == b'{"name":"a"}'
    assert sys.getrefcount(body) == before
