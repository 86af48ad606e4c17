"""Llama 3: JSON or Python after `<|python_tag|>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.render import NAME_PARAMETERS, Renderer
from toolbridge.dialects.engines.shared import BARE_JSON

DIALECT = Dialect(
    name="llama3_python_tag",
    marks=("<|python_tag|>",),
    reader=MarkReader(
        {"<|python_tag|>": (PythonCalls(listed=False),), "{": BARE_JSON},
        first=("{",),
        drop=("<|eom_id|>", "<|eot_id|>"),
    ),
    render=Renderer(
        open="<|python_tag|>", call=NAME_PARAMETERS, between="; ", result='{"output": $json}'
    ),
)
