"""GigaChat 3: JSON after `<|function_call|>` or after the role `function call`.

The template of GigaChat3.1-10B-A1.8B writes it (parser `gigachat3` in vLLM and SGLang).
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="gigachat3",
    marks=("<|function_call|>", "function call<|role_sep|>"),
    reader=MarkReader(
        {
            "<|function_call|>": (JsonBody(only="{"),),
            "function call<|role_sep|>": (JsonBody(only="{"),),
        },
        drop=("<|message_sep|>", "</s>"),
    ),
    render=Renderer(call=f"<|function_call|>{NAME_ARGUMENTS}", between=""),
)
