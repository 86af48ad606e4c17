"""`[Calling tool: NAME(JSON)]`, which small and quantised Qwen3 models write instead of their format.

The text may contain `})]` inside a string (Rapid-MLX#1591), so the JSON decides where a call ends.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.shared import CALLING_TOOL

DIALECT = Dialect(
    name="qwen_text",
    marks=("[Calling tool: ",),
    reader=MarkReader(CALLING_TOOL),
    render=Renderer(call="[Calling tool: $name($arguments)]"),
)
