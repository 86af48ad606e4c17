"""Granite 3: a list in JSON after a token or a tag."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import THINK, MarkReader, Span
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.shared import BARE_JSON
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="granite3",
    marks=("<|tool_call|>",),
    reader=MarkReader(
        {
            "<|tool_call|>": (JsonBody(only="["),),
            "<tool_call>": (JsonBody(only="["),),
            "[": BARE_JSON,
        },
        thoughts=(*THINK, Span("Here is my thought process:", "Here is my response:")),
        first=("[",),
    ),
    render=Renderer(open="<|tool_call|>[", call=NAME_ARGUMENTS, between=", ", close="]"),
)
