"""Phi-4-mini: a list in JSON after `functools`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="phi4_mini",
    marks=("functools[",),
    reader=Prose({"functools": (JsonBody(only="["),)}),
    render=Writing(open="functools[", call=NAME_ARGUMENTS, between=", ", close="]"),
)
