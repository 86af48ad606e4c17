"""Poolside Laguna: `<arg_key>`/`<arg_value>` pairs in `<tool_call>`.

The template of poolside's Laguna-XS-2.1. Ollama's parser also accepts calls that the model wrote in
`<user>` tags and bare JSON.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.arg_pairs import PairCalls
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, TOOL_CALL
from toolbridge.dialects.engines.tag_json import JsonBody

_JSON = JsonBody(close=("</user>",))
_PAIRS = PairCalls(call=("<user",), call_close=("</user",))
DIALECT = Dialect(
    name="poolside_v1",
    marks=("<tool_call>",),
    reader=MarkReader(
        {"<tool_call>": TOOL_CALL, "<user>": (_JSON, _PAIRS), "{": BARE_JSON}, first=("{",)
    ),
    render=Renderer(
        call="<tool_call>$name\n$parameters</tool_call>",
        parameter="<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n",
        result="<tool_response>\n$result\n</tool_response>",
    ),
)
