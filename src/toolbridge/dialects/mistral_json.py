"""Mistral up to v7: a list in JSON after `[TOOL_CALLS]`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import THINK, MarkReader, Span
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tag_json import JsonBody, NamedJson

_JSON = JsonBody(close=("[/TOOL_CALLS]",), shape=CallShape(ends=("[/TOOL_CALLS]",), id_last=True))
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
    reader=MarkReader(
        {"[TOOL_CALLS]": (_JSON, _NAMED)},
        thoughts=(Span("[THINK]", "[/THINK]"), *THINK),
    ),
    render=Renderer(
        open="[TOOL_CALLS][",
        call='{"name": $json_name, "arguments": $arguments, "id": "$id"}',
        between=", ",
        close="]",
        result='[TOOL_RESULTS]{"content": $json, "call_id": "$id"}[/TOOL_RESULTS]',
    ),
)
