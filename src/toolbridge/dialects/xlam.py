"""xLAM 2: a list in JSON, bare, fenced or in borrowed marks."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, TOOL_CALL
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="xlam",
    marks=("[{",),
    reader=MarkReader(
        {
            "[": BARE_JSON,
            "```": (JsonBody(shape=CallShape(strict=True), fence=True),),
            "[TOOL_CALLS]": BARE_JSON,
            "<tool_call>": TOOL_CALL,
        },
        bare=("[",),
    ),
    render=Renderer(open="[", call=NAME_ARGUMENTS, between=", ", close="]"),
)
