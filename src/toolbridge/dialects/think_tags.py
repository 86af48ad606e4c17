"""Thoughts in tags, and no calls of its own."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer

DIALECT = Dialect(
    name="think_tags",
    marks=(),
    reader=MarkReader({}),
    render=Renderer(call=NAME_ARGUMENTS),
)
