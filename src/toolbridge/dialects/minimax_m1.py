"""MiniMax M1: JSON line by line in `<tool_calls>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import Shape
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="minimax_m1",
    marks=("<tool_calls>",),
    reader=Prose(
        {
            "<tool_calls>": (
                JsonBody(close=("</tool_calls>",), shape=Shape(ends=("</tool_calls>",))),
            )
        }
    ),
    render=Writing(
        open="<tool_calls>\n",
        call=NAME_ARGUMENTS,
        close="\n</tool_calls>",
        result="tool result: $result",
    ),
)
