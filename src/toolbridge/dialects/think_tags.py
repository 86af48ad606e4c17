"""Thoughts in tags, and no calls of its own."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="think_tags",
    marks=(),
    reader=Prose({}),
    render=Writing(call=NAME_ARGUMENTS),
)
