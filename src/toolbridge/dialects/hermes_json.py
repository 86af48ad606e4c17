"""Hermes and Qwen: JSON in `<tool_call>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import FENCE, Prose
from toolbridge.dialects.engines.shared import (
    BARE_JSON,
    CALLING_TOOL,
    FENCED_JSON,
    FUNCTION,
    NAMED_FUNCTION,
    TOOL_CALL,
)
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="hermes_json",
    marks=("<tool_call>",),
    reader=Prose(
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
    render=Writing(
        call=f"<tool_call>\n{NAME_ARGUMENTS}\n</tool_call>",
        result="<tool_response>\n$result\n</tool_response>",
    ),
)
