"""Liquid LFM2: Python calls or JSON between `<|tool_call_start|>` and `<|tool_call_end|>`.

The template of LiquidAI/LFM2.5-8B-A1B. Values are Python literals with many variants (vllm#48171,
sglang#27614).
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.render import Renderer, python_text
from toolbridge.dialects.engines.shared import CALLING_TOOL
from toolbridge.dialects.engines.spaced_json import spaced
from toolbridge.dialects.engines.tool_list import ToolList

DIALECT = Dialect(
    tools=ToolList("List of tools: [", "]", between=", ", typed=True, spell=spaced),
    name="lfm2",
    marks=("<|tool_call_start|>",),
    reader=MarkReader(
        {
            "<|tool_call_start|>": (PythonCalls(close=("<|tool_call_end|>",), listed=False),),
            "[": (PythonCalls(json=False),),
            **CALLING_TOOL,
        },
        bare=("[",),
        drop=("<|im_end|>",),
    ),
    render=Renderer(
        open="<|tool_call_start|>[",
        call="$name($parameters)",
        parameter="$key=$value",
        between_parameters=", ",
        between=", ",
        close="]<|tool_call_end|>",
        spell=python_text,
    ),
)
