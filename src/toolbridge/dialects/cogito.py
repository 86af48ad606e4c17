"""Cogito: as DeepSeek V3."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.tag_json import NamedJson
from toolbridge.dialects.engines.writing import Writing

_BEGIN = (
    "<｜tool▁calls▁begin｜>",
    "<|tool_calls_begin|>",
    "<｜tool_calls_begin｜>",
    "<｜tool calls begin｜>",
)
_END = (
    "<｜tool▁calls▁end｜>",
    "<|tool_calls_end|>",
    "<｜tool_calls_end｜>",
    "<｜tool calls end｜>",
)
_CALL = (
    "<｜tool▁call▁begin｜>",
    "<|tool_call_begin|>",
    "<｜tool_call_begin｜>",
    "<｜tool call begin｜>",
)
_CLOSE = ("<｜tool▁call▁end｜>", "<|tool_call_end|>", "<｜tool_call_end｜>", "<｜tool call end｜>")
_SEPARATOR = ("<｜tool▁sep｜>", "<|tool_sep|>", "<｜tool_sep｜>", "<｜tool sep｜>")
_DROP = ("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>", "<｜end▁of▁sentence｜>")
_CALLS = NamedJson(
    before=tuple("function" + mark for mark in _SEPARATOR),
    needs_before=True,
    fence=True,
    section=_BEGIN,
    section_close=_END,
    call=_CALL,
    close=_CLOSE,
)
DIALECT = Dialect(
    name="cogito",
    marks=_BEGIN,
    reader=Prose(
        {**dict.fromkeys(_BEGIN, (_CALLS,)), **dict.fromkeys(_CALL, (_CALLS,))}, drop=_DROP
    ),
    render=Writing(
        open="<｜tool▁calls▁begin｜>",
        call="<｜tool▁call▁begin｜>function<｜tool▁sep｜>$name\n```json\n$arguments\n```<｜tool▁call▁end｜>",
        close="<｜tool▁calls▁end｜>",
        results_open="<｜tool▁outputs▁begin｜>",
        result="<｜tool▁output▁begin｜>$result<｜tool▁output▁end｜>",
        between_results="",
        results_close="<｜tool▁outputs▁end｜>",
    ),
)
