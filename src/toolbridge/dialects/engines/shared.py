"""Parsers for marks that several dialects share; the text after the mark selects the parser."""

from toolbridge.dialects.engines.arg_pairs import PairCalls
from toolbridge.dialects.engines.bracket_calls import BracketCalls
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.function_xml import function_xml
from toolbridge.dialects.engines.invoke_xml import InvokeCalls
from toolbridge.dialects.engines.mark_reader import CallReader
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.tag_json import JsonBody, NamedJson

FUNCTION_XML = function_xml()
_CLOSE = "</tool_call>"
_JSON = JsonBody(close=(_CLOSE,), shape=CallShape(ends=(_CLOSE,)))
_INVOKE = InvokeCalls(
    call=("<invoke",),
    call_close=("</invoke>",),
    parameter=("<parameter",),
    parameter_close=("</parameter>",),
    wrapper=("<tool_call>",),
    wrapper_close=(_CLOSE,),
    json_body=False,
)
TOOL_CALL: tuple[CallReader, ...] = (_JSON, FUNCTION_XML, _INVOKE, PairCalls())
"""After `<tool_call>`: JSON, `<function=`, `<invoke` or a name with pairs."""
NAMED_FUNCTION = NamedJson(separators=(">",), close=("</function>",))
"""After `<function=`: a name and JSON."""
FUNCTION: tuple[CallReader, ...] = (FUNCTION_XML,)
BARE_JSON: tuple[CallReader, ...] = (JsonBody(shape=CallShape(strict=True, between=",;")),)
"""JSON without a mark: only a declared name with arguments is a call."""
FENCED_JSON: tuple[CallReader, ...] = (JsonBody(shape=CallShape(strict=True), fence=True),)
"""JSON in a code fence, with nothing else in it."""
CALLING_TOOL: dict[str, tuple[CallReader, ...]] = {
    "[Calling tool: ": (PythonCalls(json=False),),
    "[Calling tool=": (BracketCalls(),),
}
"""Calls in words, by quantised models: `[Calling tool: f({…})]` and `[Calling tool="f" a="1"]`."""
