"""Mistral up to v7: a list in JSON after `[TOOL_CALLS]`."""

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
    name="mistral_json",
    marks=("[TOOL_CALLS]",),
    reader=Prose(
        {"[TOOL_CALLS]": (_JSON, _NAMED)},
        thoughts=(Span("[THINK]", "[/THINK]"), *THINK),
    ),
    render=Writing(
        open="[TOOL_CALLS][",
        call='{"name": $json_name, "arguments": $arguments, "id": "$id"}',
        between=", ",
        close="]",
        result='[TOOL_RESULTS]{"content": $json, "call_id": "$id"}[/TOOL_RESULTS]',
    ),
)
