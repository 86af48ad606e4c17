"""Hunyuan A13B: a list in JSON, the answer in a tag of its own."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="hunyuan_a13b",
    marks=("<tool_calls>",),
    reader=MarkReader(
        {
            "<tool_calls>": (
                JsonBody(close=("</tool_calls>",), shape=CallShape(ends=("</tool_calls>",))),
            )
        },
        drop=("<answer>", "</answer>"),
    ),
    render=Renderer(
        open="<tool_calls>[", call=NAME_ARGUMENTS, between=", ", close="]</tool_calls>"
    ),
)
