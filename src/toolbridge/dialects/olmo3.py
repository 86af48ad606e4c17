"""OLMo 3: Python calls, one per line, in `<function_calls>`.

allenai/Olmo-3-7B-Instruct and 32B; the format is that of vLLM's `olmo3` parser.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.render import Renderer, python

DIALECT = Dialect(
    name="olmo3",
    marks=("<function_calls>",),
    reader=MarkReader(
        {
            "<function_calls>": (
                PythonCalls(close=("</function_calls>",), listed=False, empty=True),
            )
        },
    ),
    render=Renderer(
        open="<function_calls>",
        call="$name($parameters)",
        parameter="$key=$value",
        between_parameters=", ",
        close="</function_calls>",
        spell=python,
    ),
)
