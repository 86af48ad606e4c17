"""Nemotron Nano 2: a list in JSON in `<TOOLCALL>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import Shape
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="nemotron_nano_v2",
    marks=("<TOOLCALL>",),
    reader=Prose(
        {"<TOOLCALL>": (JsonBody(close=("</TOOLCALL>",), shape=Shape(ends=("</TOOLCALL>",))),)},
        drop=("<SPECIAL_12>",),
    ),
    render=Writing(
        open="<TOOLCALL>[",
        call=NAME_ARGUMENTS,
        between=", ",
        close="]</TOOLCALL>",
        results_open="<TOOL_RESPONSE>[",
        between_results=", ",
        results_close="]</TOOL_RESPONSE>",
    ),
)
