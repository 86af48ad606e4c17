"""`[Calling tool: NAME(JSON)]`, which small Qwen models fall back to."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.shared import CALLING_TOOL
from toolbridge.dialects.engines.writing import Writing

DIALECT = Dialect(
    name="qwen_text",
    marks=("[Calling tool: ",),
    reader=Prose({"[Calling tool: ": CALLING_TOOL}),
    render=Writing(call="[Calling tool: $name($arguments)]"),
)
