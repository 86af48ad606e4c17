"""Thoughts of Kimi: as `think_tags`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="kimi_think",
    marks=(),
    reader=Prose({}),
    render=Writing(call=NAME_ARGUMENTS),
)
