"""Gemma 4: `call:NAME{…}` with quotes of one token."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.gemma import GemmaCalls
from toolbridge.dialects.engines.mark_reader import MarkReader, Span
from toolbridge.dialects.engines.render import Renderer, quoted_with

_QUOTE = '<|"|>'
_CALLS = GemmaCalls(
    _QUOTE,
    ("<tool_call|>",),
    inner='"',
    opener=("<|tool_call>", "<turn|>", "<|tool_response>"),
    forward=True,
)
DIALECT = Dialect(
    name="gemma4",
    marks=("<|tool_call>",),
    reader=MarkReader(
        {"<|tool_call>": (_CALLS,), "call:": (_CALLS,)},
        thoughts=(
            Span("<|channel>thought\n", "<channel|>"),
            Span("<|channel>thought", "<channel|>"),
            Span("<|channel>", "<channel|>"),
        ),
        first=("call:",),
        drop=("<turn|>",),
        leftovers=("<|tool_response>",),
        drop_closers=True,
    ),
    render=Renderer(
        call="<|tool_call>call:$name{$parameters}<tool_call|>",
        parameter="$key:$value",
        between_parameters=",",
        between="",
        spell=quoted_with(_QUOTE),
        result=f"<|tool_response>response:$name{{value:{_QUOTE}$result{_QUOTE}}}<tool_response|>",
        between_results="",
    ),
)
