"""Reasoning in `<think>` tags, and no calls.

For servers that return the model's reasoning in the text because they run no reasoning parser.
`kimi_think` is the same dialect under the name for Kimi.
"""

from dataclasses import replace

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer

_THINK_TAGS = Dialect(
    name="think_tags",
    marks=(),
    reader=MarkReader({}),
    render=Renderer(call=NAME_ARGUMENTS),
)
_KIMI_THINK = replace(_THINK_TAGS, name="kimi_think")
DIALECTS = (_THINK_TAGS, _KIMI_THINK)
