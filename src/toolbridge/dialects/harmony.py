"""OpenAI Harmony: channels with recipients."""

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
