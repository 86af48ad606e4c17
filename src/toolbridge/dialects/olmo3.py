"""OLMo 3: Python calls, one a line, in `<function_calls>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.writing import Writing, python

DIALECT = Dialect(
    name="olmo3",
    marks=("<function_calls>",),
    reader=Prose(
        {"<function_calls>": (PythonCalls(close=("</function_calls>",), listed=False),)},
    ),
    render=Writing(
        open="<function_calls>",
        call="$name($parameters)",
        parameter="$key=$value",
        between_parameters=", ",
        close="</function_calls>",
        spell=python,
    ),
)
