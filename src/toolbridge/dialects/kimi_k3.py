"""Kimi K3: channels with attributes, opened by `<|open|>`.

The template of moonshotai/Kimi-K3 writes it (parser `kimi_k3` in vLLM and SGLang). Its macro
`escape_attr` writes `&amp;` and `&quot;` in attributes; values are written as they are. Arguments that
are no object in the history become one `json` block.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.channels import Channels, escaped_attribute
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.spaced_json import sorted_keys
from toolbridge.dialects.engines.tool_list import ToolList

DIALECT = Dialect(
    tools=ToolList("```json\n[", "]\n```", between=",", typed=True, spell=sorted_keys),
    name="kimi_k3",
    marks=("<|open|>",),
    reader=Channels(),
    render=Renderer(
        open="<|open|>tools<|sep|>",
        call='<|open|>call tool="$name" index="$number"<|sep|>$parameters<|close|>call<|sep|>',
        parameter='<|open|>argument key="$key" type="$type"<|sep|>$value<|close|>argument<|sep|>',
        close="<|close|>tools<|sep|>",
        between="",
        escape=escaped_attribute,
    ),
)
