"""Hermes: JSON in `<tool_call>`.

Nous Research's Hermes 2 Pro defined it; Qwen 2.5, Qwen3, QwQ, Granite 4 and many fine-tunes write it
(template of Qwen/Qwen3-0.6B). Qwen2.5-Coder often drops the tags (ollama#12174), so bare and fenced
JSON at the beginning of an answer is read too.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.shared import (
    BARE_JSON,
    CALLING_TOOL,
    FENCED_JSON,
    FUNCTION,
    NAMED_FUNCTION,
    TOOL_CALL,
)
from toolbridge.dialects.engines.speech import FENCE
from toolbridge.dialects.engines.tool_list import IN_TOOLS

DIALECT = Dialect(
    name="hermes_json",
    marks=("<tool_call>",),
    reader=MarkReader(
        {
            "<tool_call>": TOOL_CALL,
            "<function=": (*FUNCTION, NAMED_FUNCTION),
            **CALLING_TOOL,
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
    tools=IN_TOOLS,
)
