"""OpenAI Harmony, the format of gpt-oss: messages with a channel and a recipient.

The template of openai/gpt-oss-120b and the openai/harmony library define it. The recipient may also
stand before the channel (ggml-org/llama.cpp#15181) or, in long conversations, in its place, and
unknown words in a header must not end the answer (openai/harmony#38). Messages to the recipient
`assistant` are reasoning.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.frames import Harmony
from toolbridge.dialects.engines.render import Renderer

DIALECT = Dialect(
    name="harmony",
    marks=("<|channel|>", "<|start|>assistant"),
    reader=Harmony(),
    render=Renderer(
        call="<|start|>assistant to=functions.$name<|channel|>commentary json<|message|>$arguments<|call|>",
        between="",
        result="<|start|>functions.$name to=assistant<|channel|>commentary<|message|>$json<|end|>",
        between_results="",
    ),
)
