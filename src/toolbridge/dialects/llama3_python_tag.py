"""Llama 3: JSON or Python after `<|python_tag|>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.shared import BARE_JSON
from toolbridge.dialects.engines.writing import NAME_PARAMETERS, Writing

DIALECT = Dialect(
    name="llama3_python_tag",
    marks=("<|python_tag|>",),
    reader=Prose(
        {"<|python_tag|>": (PythonCalls(listed=False),), "{": BARE_JSON},
        first=("{",),
        drop=("<|eom_id|>", "<|eot_id|>"),
    ),
    render=Writing(
        open="<|python_tag|>", call=NAME_PARAMETERS, between="; ", result='{"output": $json}'
    ),
)
