"""Jamba: a list in JSON in `<tool_calls>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="jamba",
    marks=("<tool_calls>",),
    reader=MarkReader(
        {
            "<tool_calls>": (
                JsonBody(close=("</tool_calls>",), shape=CallShape(ends=("</tool_calls>",))),
            )
        }
    ),
    render=Renderer(
        open="<tool_calls>[\n    ", call=NAME_ARGUMENTS, between=",\n    ", close="\n]</tool_calls>"
    ),
)
