"""Mistral v11 and later: a name, `[ARGS]` and JSON."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import Shape
from toolbridge.dialects.engines.prose import THINK, Prose, Span
from toolbridge.dialects.engines.tag_json import JsonBody, NamedJson
from toolbridge.dialects.engines.writing import Writing

_JSON = JsonBody(close=("[/TOOL_CALLS]",), shape=Shape(ends=("[/TOOL_CALLS]",), id_last=True))
_NAMED = NamedJson(
    separators=("[ARGS]",),
    needs_separator=False,
    id_marks=("[CALL_ID]",),
    call=("[TOOL_CALLS]",),
    empty=True,
)
DIALECT = Dialect(
    name="mistral_args",
    marks=("[TOOL_CALLS]",),
    reader=Prose(
        {"[TOOL_CALLS]": (_JSON, _NAMED)},
        thoughts=(Span("[THINK]", "[/THINK]"), *THINK),
    ),
    render=Writing(
        call="[TOOL_CALLS]$name[ARGS]$arguments",
        between="",
        result="[TOOL_RESULTS]$result[/TOOL_RESULTS]",
    ),
)
