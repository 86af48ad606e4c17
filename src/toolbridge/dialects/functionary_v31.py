"""Functionary 3.1: JSON in `<function=NAME>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.shared import BARE_JSON, NAMED_FUNCTION
from toolbridge.dialects.engines.writing import Writing

DIALECT = Dialect(
    name="functionary_v31",
    marks=("<function=",),
    reader=Prose(
        {"<function=": (NAMED_FUNCTION,), "[": BARE_JSON, "{": BARE_JSON}, first=("[", "{")
    ),
    render=Writing(call="<function=$name>$arguments</function>", between=""),
)
