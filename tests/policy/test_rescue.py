"""Answers in the errors of engines, without a socket: what is taken, and what is not."""

import json

import pytest
from tests.rescue_table import ROWS, llama, ollama
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Problem, Tool, ToolChoice
from toolbridge.policy.rescue import RescueContext, is_unparsed, rescue

rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def problem_of(row) -> Problem:
    codec = codecs.load(row.api)
    body = row.body.encode()
    if row.status != 200:
        return codec.decode_rejection(row.status, {}, body)
    framed = body + b"\n" if row.api == "ollama" else b"event: error\ndata: " + body + b"\n\n"
    return codec.stream_decoder(Ids()).feed(framed)[-1].problem


def context_of(row) -> RescueContext:
    choice = ToolChoice("required" if row.choice == "required" else "auto")
    if row.choice not in {"", "required"}:
        choice = ToolChoice("named", (row.choice,))
    return RescueContext(tuple(Tool(t.name, schema=t.schema) for t in row.tools), choice)


@rows
def test_the_row_is_read_right(row):
    problem = problem_of(row)
    assert is_unparsed(problem)
    found = rescue(problem, context_of(row))
    if row.retry:
        assert found is None
        return
    reading, step = found
    assert reading.content == row.text
    calls = [
        (call.name, json.loads(call.raw) if call.raw else call.arguments) for call in reading.calls
    ]
    assert calls == list(row.calls)
    assert step.what == "read from the engine's error"


def test_the_table_is_long_enough():
    assert sum(bool(row.calls) for row in ROWS) >= 12


@every_row(
    ("status", "text"),
    [
        (500, "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] x"),
        (503, "Loading model"),
        (500, "internal error"),
        (429, "Rate limit reached"),
        (400, "XML is not supported"),
    ],
)  # fmt: skip
def test_other_errors_are_no_answers(status, text):
    body = json.dumps({"error": {"message": text}}).encode()
    for api in codecs.names():
        assert not is_unparsed(codecs.load(api).decode_rejection(status, {}, body))


def test_arguments_in_the_history_are_never_sent_again_unchanged():
    """llama.cpp's error about a past call is permanent: a retry would fail as well."""
    text = "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] …"
    body = json.dumps({"error": {"message": text, "code": 500, "type": "server_error"}}).encode()
    assert codecs.load("openai_chat").decode_rejection(500, {}, body).kind == "unsupported"


def test_with_the_dialect_off_text_is_not_read():
    problem = codecs.load("openai_chat").decode_rejection(500, {}, llama("hi").encode())
    assert rescue(problem, RescueContext(dialect="off")) is None


def test_a_tool_for_plain_text_takes_plain_text():
    body = ollama("*** Begin Patch", "invalid character '*'").encode()
    problem = codecs.load("ollama").decode_rejection(500, {}, body)
    reading, _ = rescue(problem, RescueContext((Tool("patch", freeform=True),)))
    assert json.loads(reading.calls[0].raw) == {"input": "*** Begin Patch"}


@every_row("text", ["word", "12", "rm -rf /", "import this is not", "x" * 200_000])
def test_a_text_that_is_no_program_is_not_run(text):
    body = ollama(text, "invalid character").encode()
    problem = codecs.load("ollama").decode_rejection(500, {}, body)
    schema = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
    assert rescue(problem, RescueContext((Tool("run", schema=schema),))) is None
