"""Python calls in a list."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.render import Renderer, python

DIALECT = Dialect(
    name="pythonic",
    marks=("<|python_start|>",),
    reader=MarkReader(
        {
            "[": (PythonCalls(json=False),),
            "<|python_start|>": (PythonCalls(close=("<|python_end|>",)),),
        },
        bare=("[",),
        drop=("<|python_end|>", "<|eot|>"),
    ),
    render=Renderer(
        open="[",
        call="$name($parameters)",
        parameter="$key=$value",
        between_parameters=", ",
        between=", ",
        close="]",
        spell=python,
        result='{"output": $json}',
    ),
)
