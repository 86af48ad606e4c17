"""Phi-4-mini: a list in JSON after `functools`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="phi4_mini",
    marks=("functools[",),
    reader=MarkReader({"functools": (JsonBody(only="["),)}),
    render=Renderer(open="functools[", call=NAME_ARGUMENTS, between=", ", close="]"),
)
