"""xLAM 2: a JSON array, bare, fenced, or in the marks of Mistral or Hermes.

Salesforce Llama-xLAM-2 and Qwen-xLAM; vLLM's tool_chat_template_xlam_qwen.jinja and `xlam` parser.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, TOOL_CALL
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="xlam",
    marks=("[{",),
    reader=MarkReader(
        {
            "[": BARE_JSON,
            "```": (JsonBody(shape=CallShape(strict=True), fence=True),),
            "[TOOL_CALLS]": BARE_JSON,
            "<tool_call>": TOOL_CALL,
        },
        bare=("[",),
    ),
    render=Renderer(open="[", call=NAME_ARGUMENTS, between=", ", close="]"),
)
