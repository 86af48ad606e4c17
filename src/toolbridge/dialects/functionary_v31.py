"""Functionary 3.1: JSON in `<function=NAME>`.

The template of meetkai/functionary-medium-v3.1, and the custom tools of Llama 3.1.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, NAMED_FUNCTION

DIALECT = Dialect(
    name="functionary_v31",
    marks=("<function=",),
    reader=MarkReader(
        {"<function=": (NAMED_FUNCTION,), "[": BARE_JSON, "{": BARE_JSON}, first=("[", "{")
    ),
    render=Renderer(call="<function=$name>$arguments</function>", between=""),
)
