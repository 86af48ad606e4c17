"""Mistral with `[CALL_ID]` between the name and the arguments."""

from toolbridge.dialects import mistral_json
from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.render import Renderer

DIALECT = Dialect(
    name="mistral_callid",
    marks=("[TOOL_CALLS]",),
    reader=mistral_json.DIALECT.reader,
    render=Renderer(
        call="[TOOL_CALLS]$name[CALL_ID]$id[ARGS]$arguments",
        between="",
        result="[TOOL_RESULTS]$id[TOOL_CONTENT]$result[/TOOL_RESULTS]",
    ),
)
