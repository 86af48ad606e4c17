"""Nemotron Nano 2: a JSON array in `<TOOLCALL>`.

The template of nvidia/NVIDIA-Nemotron-Nano-9B-v2 writes it.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.spaced_json import spaced
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.tool_list import ToolList

DIALECT = Dialect(
    tools=ToolList("<AVAILABLE_TOOLS>[", "]</AVAILABLE_TOOLS>", between=", ", spell=spaced),
    name="nemotron_nano_v2",
    marks=("<TOOLCALL>",),
    reader=MarkReader(
        {"<TOOLCALL>": (JsonBody(close=("</TOOLCALL>",), shape=CallShape(ends=("</TOOLCALL>",))),)},
        drop=("<SPECIAL_12>",),
    ),
    render=Renderer(
        open="<TOOLCALL>[",
        call=NAME_ARGUMENTS,
        between=", ",
        close="]</TOOLCALL>",
        results_open="<TOOL_RESPONSE>[",
        between_results=", ",
        results_close="]</TOOL_RESPONSE>",
    ),
)
