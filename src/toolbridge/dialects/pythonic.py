"""Python calls in a list."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.writing import Writing, python

DIALECT = Dialect(
    name="pythonic",
    marks=("<|python_start|>",),
    reader=Prose(
        {
            "[": (PythonCalls(json=False),),
            "<|python_start|>": (PythonCalls(close=("<|python_end|>",)),),
        },
        bare=("[",),
        drop=("<|python_end|>", "<|eot|>"),
    ),
    render=Writing(
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
