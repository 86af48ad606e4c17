"""Mistral v11 and later: a name, `[ARGS]` and JSON."""

from toolbridge.dialects import mistral_json
from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.render import Renderer

DIALECT = Dialect(
    name="mistral_args",
    marks=("[TOOL_CALLS]",),
    reader=mistral_json.DIALECT.reader,
    render=Renderer(
        call="[TOOL_CALLS]$name[ARGS]$arguments",
        between="",
        result="[TOOL_RESULTS]$result[/TOOL_RESULTS]",
    ),
)
