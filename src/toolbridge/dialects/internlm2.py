"""InternLM 2 and Intern-S1: JSON between `<|action_start|>` and `<|action_end|>`.

vLLM's tool_chat_template_internlm2_tool.jinja (parsers `internlm` in vLLM, `interns1` in SGLang).
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_PARAMETERS, Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="internlm2",
    marks=("<|action_start|>",),
    reader=MarkReader(
        {
            "<|action_start|>": (
                JsonBody(
                    close=("<|action_end|>",),
                    lead=("<|plugin|>", "<|interpreter|>"),
                    shape=CallShape(ends=("<|action_end|>",)),
                ),
            )
        }
    ),
    render=Renderer(
        call="<|action_start|><|plugin|>\n" + NAME_PARAMETERS + "<|action_end|>", between=""
    ),
)
