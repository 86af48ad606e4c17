"""JSON in a code fence.

Models whose marks were stripped or forgotten write it (kronk#950). Only an object with the name of a
declared tool counts: other fenced JSON is part of the answer.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.shared import BARE_JSON
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="fenced_json",
    marks=("```json",),
    reader=MarkReader(
        {"```": (JsonBody(shape=CallShape(strict=True), fence=True),), "{": BARE_JSON},
        first=("{",),
    ),
    render=Renderer(call=f"```json\n{NAME_ARGUMENTS}\n```"),
)
