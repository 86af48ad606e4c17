"""Hermes and Qwen: JSON in `<tool_call>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import FENCE, MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.shared import (
    BARE_JSON,
    CALLING_TOOL,
    FENCED_JSON,
    FUNCTION,
    NAMED_FUNCTION,
    TOOL_CALL,
)

DIALECT = Dialect(
    name="hermes_json",
    marks=("<tool_call>",),
    reader=MarkReader(
        {
            "<tool_call>": TOOL_CALL,
            "<function=": (*FUNCTION, NAMED_FUNCTION),
            "[Calling tool: ": CALLING_TOOL,
            "{": BARE_JSON,
            "[": BARE_JSON,
            FENCE: FENCED_JSON,
        },
        first=("{", "[", FENCE),
        drop=("<|im_end|>",),
    ),
    render=Renderer(
        call=f"<tool_call>\n{NAME_ARGUMENTS}\n</tool_call>",
        result="<tool_response>\n$result\n</tool_response>",
    ),
)
