"""OpenAI Harmony: channels with recipients."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.frames import Harmony
from toolbridge.dialects.engines.writing import Writing

DIALECT = Dialect(
    name="harmony",
    marks=("<|channel|>", "<|start|>assistant"),
    reader=Harmony(),
    render=Writing(
        call="<|start|>assistant to=functions.$name<|channel|>commentary json<|message|>$arguments<|call|>",
        between="",
        result="<|start|>functions.$name to=assistant<|channel|>commentary<|message|>$json<|end|>",
        between_results="",
    ),
)
