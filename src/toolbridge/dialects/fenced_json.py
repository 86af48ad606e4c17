"""JSON in a fenced block."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import Shape
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.shared import BARE_JSON
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="fenced_json",
    marks=("```json",),
    reader=Prose(
        {"```": (JsonBody(shape=Shape(strict=True), fence=True),), "{": BARE_JSON},
        first=("{",),
    ),
    render=Writing(call=f"```json\n{NAME_ARGUMENTS}\n```"),
)
