"""Apriel: a JSON array in `<tool_calls>`; the reasoning ends at `[BEGIN FINAL RESPONSE]`.

The template of ServiceNow-AI/Apriel-1.6-15b-Thinker writes it.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import THINK, MarkReader, Span
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.spaced_json import spaced
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.tool_list import ToolList

DIALECT = Dialect(
    tools=ToolList("<available_tools>\n", "\n</available_tools>", typed=True, spell=spaced),
    name="apriel",
    marks=("<tool_calls>",),
    reader=MarkReader(
        {
            "<tool_calls>": (
                JsonBody(
                    close=("</tool_calls>",), shape=CallShape(ends=("</tool_calls>",), id_last=True)
                ),
            )
        },
        thoughts=(
            Span("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", is_sentence=True),
            *THINK,
        ),
        drop=("<|end|>", "[END FINAL RESPONSE]"),
    ),
    render=Renderer(
        open="<tool_calls>[",
        call='{"name": $json_name, "arguments": $arguments, "id": "$id"}',
        between=", ",
        close="]</tool_calls>",
    ),
)
