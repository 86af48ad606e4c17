"""InternLM and Intern-S1: JSON between action marks."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import Shape
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.writing import NAME_PARAMETERS, Writing

DIALECT = Dialect(
    name="internlm2",
    marks=("<|action_start|>",),
    reader=Prose(
        {
            "<|action_start|>": (
                JsonBody(
                    close=("<|action_end|>",),
                    lead=("<|plugin|>", "<|interpreter|>"),
                    shape=Shape(ends=("<|action_end|>",)),
                ),
            )
        }
    ),
    render=Writing(
        call="<|action_start|><|plugin|>\n" + NAME_PARAMETERS + "<|action_end|>", between=""
    ),
)
