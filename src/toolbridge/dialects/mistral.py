"""Mistral: calls after `[TOOL_CALLS]`, in three generations of its tokenizer.

`mistral_json` is a JSON array (tokenizers up to v7: Mistral-Nemo-Instruct-2407), `mistral_args` a
name, `[ARGS]` and JSON (v11 and later: Devstral, Magistral, Ministral 3), `mistral_callid` has
`[CALL_ID]` between name and arguments (template of Mistral-Small-3.2-24B-Instruct-2506). One reader
accepts all three; a parser of the newest form alone rejects the oldest (mlx-lm#1374).
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import THINK, MarkReader, Span
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.spaced_json import spaced
from toolbridge.dialects.engines.tag_json import JsonBody, NamedJson
from toolbridge.dialects.engines.tool_list import ToolList

_JSON = JsonBody(close=("[/TOOL_CALLS]",), shape=CallShape(ends=("[/TOOL_CALLS]",), id_last=True))
_NAMED = NamedJson(
    separators=("[ARGS]",),
    needs_separator=False,
    id_marks=("[CALL_ID]",),
    call=("[TOOL_CALLS]",),
    empty=True,
)
_TOOLS = ToolList(
    "[AVAILABLE_TOOLS][", "][/AVAILABLE_TOOLS]", between=", ", typed=True, spell=spaced
)
_MISTRAL_JSON = Dialect(
    tools=_TOOLS,
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
_MISTRAL_ARGS = Dialect(
    tools=_TOOLS,
    name="mistral_args",
    marks=("[TOOL_CALLS]",),
    reader=_MISTRAL_JSON.reader,
    render=Renderer(
        call="[TOOL_CALLS]$name[ARGS]$arguments",
        between="",
        result="[TOOL_RESULTS]$result[/TOOL_RESULTS]",
    ),
)
_MISTRAL_CALLID = Dialect(
    tools=_TOOLS,
    name="mistral_callid",
    marks=("[TOOL_CALLS]",),
    reader=_MISTRAL_JSON.reader,
    render=Renderer(
        call="[TOOL_CALLS]$name[CALL_ID]$id[ARGS]$arguments",
        between="",
        result="[TOOL_RESULTS]$id[TOOL_CONTENT]$result[/TOOL_RESULTS]",
    ),
)
DIALECTS = (_MISTRAL_JSON, _MISTRAL_ARGS, _MISTRAL_CALLID)
