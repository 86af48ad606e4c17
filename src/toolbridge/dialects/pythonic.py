"""Python calls in a list.

`pythonic` follows vLLM's tool_chat_template_toolace.jinja (Llama 3.2, ToolACE) and Gemma 3;
`llama4_pythonic` tool_chat_template_llama4_pythonic.jinja, with `<|python_start|>` and
`<|python_end|>`. Llama 4's template quotes every value, so numbers arrive as strings and are
converted by the tool's schema.
"""

from dataclasses import replace

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.render import Renderer, python

_RENDER = Renderer(
    open="[",
    call="$name($parameters)",
    parameter="$key=$value",
    between_parameters=", ",
    between=", ",
    close="]",
    spell=python,
    result='{"output": $json}',
)
_PYTHONIC = Dialect(
    name="pythonic",
    marks=("<|python_start|>",),
    reader=MarkReader(
        {
            "[": (PythonCalls(json=False),),
            "<|python_start|>": (PythonCalls(close=("<|python_end|>",), empty=True),),
        },
        bare=("[",),
        drop=("<|python_end|>", "<|eot|>"),
    ),
    render=_RENDER,
)
_LLAMA4_PYTHONIC = replace(
    _PYTHONIC, name="llama4_pythonic", render=replace(_RENDER, result="$json")
)
DIALECTS = (_PYTHONIC, _LLAMA4_PYTHONIC)
