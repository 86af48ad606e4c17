"""Inkling: blocks of one kind each, named by `<|content_…|>` tokens.

The format is that of the `inkling` parsers in vLLM and SGLang. The prompt ends with
`<|message_model|>`, or with the kind of the message as well.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.blocks import Blocks
from toolbridge.dialects.engines.render import Renderer

DIALECT = Dialect(
    name="inkling",
    marks=("<|message_model|>", "<|content_invoke_tool_json|>"),
    reader=Blocks(),
    render=Renderer(
        call='<|message_model|>$name<|content_invoke_tool_json|>{"name": $json_name, "args": $arguments}<|end_message|>',
        between="",
    ),
)
