"""Hunyuan A13B: a list in JSON, the answer in a tag of its own."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import Shape
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="hunyuan_a13b",
    marks=("<tool_calls>",),
    reader=Prose(
        {
            "<tool_calls>": (
                JsonBody(close=("</tool_calls>",), shape=Shape(ends=("</tool_calls>",))),
            )
        },
        drop=("<answer>", "</answer>"),
    ),
    render=Writing(open="<tool_calls>[", call=NAME_ARGUMENTS, between=", ", close="]</tool_calls>"),
)
