"""Solar Open: an id, a name and JSON between tokens.

The template of upstage/Solar-Open-100B writes it.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader, Span
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tag_json import NamedJson

_CALLS = NamedJson(
    id_first="<|tool_call:name|>",
    separators=("<|tool_call:args|>",),
    section=("<|tool_calls|>",),
    section_close=("<|calls|>",),
    call=("<|tool_call:begin|>",),
    close=("<|tool_call:end|>",),
)
DIALECT = Dialect(
    name="solar_open",
    marks=("<|tool_calls|>", "<|tool_call:begin|>"),
    reader=MarkReader(
        {"<|tool_calls|>": (_CALLS,), "<|tool_call:begin|>": (_CALLS,)},
        thoughts=(Span("<|think|>", "<|end|>"),),
    ),
    render=Renderer(
        open="<|tool_calls|>",
        call="<|tool_call:begin|>$id<|tool_call:name|>$name<|tool_call:args|>$arguments<|tool_call:end|>",
        between="",
        close="<|calls|>",
        results_open="<|tool_response|>",
        result="<|tool_response:begin|>$id<|tool_response:name|>$name<|tool_response:result|>$result<|tool_response:end|>",
        between_results="",
    ),
)
