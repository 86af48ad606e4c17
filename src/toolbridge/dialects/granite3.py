"""Granite 3: a list in JSON after a token or a tag."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import THINK, Prose, Span
from toolbridge.dialects.engines.shared import BARE_JSON
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="granite3",
    marks=("<|tool_call|>",),
    reader=Prose(
        {
            "<|tool_call|>": (JsonBody(only="["),),
            "<tool_call>": (JsonBody(only="["),),
            "[": BARE_JSON,
        },
        thoughts=(*THINK, Span("Here is my thought process:", "Here is my response:")),
        first=("[",),
    ),
    render=Writing(open="<|tool_call|>[", call=NAME_ARGUMENTS, between=", ", close="]"),
)
