"""LongCat: JSON or key/value pairs in `<longcat_tool_call>`.

meituan-longcat/LongCat-Flash; the format is that of vLLM's `longcat` parser.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.arg_pairs import PairCalls
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader, Span
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

_JSON = JsonBody(close=("</longcat_tool_call>",), shape=CallShape(ends=("</longcat_tool_call>",)))
_PAIRS = PairCalls(
    call=("<longcat_tool_call",),
    call_close=("</longcat_tool_call",),
    key="<longcat_arg_key",
    key_close="</longcat_arg_key",
    value="<longcat_arg_value",
    value_close="</longcat_arg_value",
)
DIALECT = Dialect(
    name="longcat",
    marks=("<longcat_tool_call>",),
    reader=MarkReader(
        {"<longcat_tool_call>": (_JSON, _PAIRS)},
        thoughts=(Span("<longcat_think>", "</longcat_think>"),),
    ),
    render=Renderer(call=f"<longcat_tool_call>\n{NAME_ARGUMENTS}\n</longcat_tool_call>"),
)
