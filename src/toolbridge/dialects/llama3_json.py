"""Llama 3: JSON with `parameters`, anywhere in the text."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.render import NAME_PARAMETERS, Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, NAMED_FUNCTION

DIALECT = Dialect(
    name="llama3_json",
    marks=("<|python_tag|>",),
    reader=MarkReader(
        {
            "{": BARE_JSON,
            "[": BARE_JSON,
            "<|python_tag|>": (PythonCalls(listed=False),),
            "<function=": (NAMED_FUNCTION,),
        },
        bare=("{", "["),
        drop=("<|eom_id|>", "<|eot_id|>"),
    ),
    render=Renderer(call=NAME_PARAMETERS, between="; ", result='{"output": $json}'),
)
