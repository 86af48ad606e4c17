"""A JSON array, or one object per line, in `<tool_calls>`.

`hunyuan_a13b` (Tencent Hunyuan-A13B, answer in `<answer>`) and `jamba` (AI21 Jamba 1.5 and 1.6) are
named after vLLM's parsers; `minimax_m1` follows the template of MiniMaxAI/MiniMax-M1, which writes
one object per line.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

_CALLS = (JsonBody(close=("</tool_calls>",), shape=CallShape(ends=("</tool_calls>",))),)
_HUNYUAN_A13B = Dialect(
    name="hunyuan_a13b",
    marks=("<tool_calls>",),
    reader=MarkReader(
        {"<tool_calls>": _CALLS},
        drop=("<answer>", "</answer>"),
    ),
    render=Renderer(
        open="<tool_calls>[", call=NAME_ARGUMENTS, between=", ", close="]</tool_calls>"
    ),
)
_JAMBA = Dialect(
    name="jamba",
    marks=("<tool_calls>",),
    reader=MarkReader({"<tool_calls>": _CALLS}),
    render=Renderer(
        open="<tool_calls>[\n    ", call=NAME_ARGUMENTS, between=",\n    ", close="\n]</tool_calls>"
    ),
)
_MINIMAX_M1 = Dialect(
    name="minimax_m1",
    marks=("<tool_calls>",),
    reader=MarkReader({"<tool_calls>": _CALLS}),
    render=Renderer(
        open="<tool_calls>\n",
        call=NAME_ARGUMENTS,
        close="\n</tool_calls>",
        result="tool result: $result",
    ),
)
DIALECTS = (_HUNYUAN_A13B, _JAMBA, _MINIMAX_M1)
