"""Granite 3: a JSON array after `<|tool_call|>`.

vLLM's tool_chat_template_granite.jinja writes it. Granite 3.1 writes the text `<tool_call>` instead
of the token (vllm#11402).
"""

import json
from collections.abc import Sequence

from typing_extensions import override

from toolbridge.core.messages import Call
from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import THINK, MarkReader, Span
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.shared import BARE_JSON
from toolbridge.dialects.engines.tag_json import JsonBody


class GraniteRenderer(Renderer):
    """Writes the calls as one list with four blanks of indentation, as the template does."""

    @override
    def calls(self, calls: Sequence[Call]) -> str:
        if any(call.raw for call in calls):
            return super().calls(calls)
        listed = [{"name": call.name, "arguments": call.arguments} for call in calls]
        return "<|tool_call|>" + json.dumps(listed, indent=4, ensure_ascii=False)


DIALECT = Dialect(
    name="granite3",
    marks=("<|tool_call|>",),
    reader=MarkReader(
        {
            "<|tool_call|>": (JsonBody(only="["),),
            "<tool_call>": (JsonBody(only="["),),
            "[": BARE_JSON,
        },
        thoughts=(*THINK, Span("Here is my thought process:", "Here is my response:")),
        first=("[",),
    ),
    render=GraniteRenderer(open="<|tool_call|>[", call=NAME_ARGUMENTS, between=", ", close="]"),
)
