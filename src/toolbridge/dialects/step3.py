"""Step 3: `<steptml:invoke>` between marks like DeepSeek's.

stepfun-ai/step3; the format is that of the `step3` parsers in vLLM and SGLang.
"""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.invoke_xml import InvokeCalls
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer

_CALLS = InvokeCalls(
    call=("<steptml:invoke",),
    call_close=("</steptml:invoke>",),
    parameter=("<steptml:parameter",),
    parameter_close=("</steptml:parameter>",),
    wrapper=("<｜tool_calls_begin｜>",),
    wrapper_close=("<｜tool_calls_end｜>",),
    inner=(
        "<｜tool_call_begin｜>function<｜tool_sep｜>",
        "<｜tool_call_begin｜>",
        "<｜tool_call_end｜>",
    ),
    quotes=True,
)
DIALECT = Dialect(
    name="step3",
    marks=("<｜tool_calls_begin｜>",),
    reader=MarkReader(dict.fromkeys((*_CALLS.wrapper, *_CALLS.call), (_CALLS,))),
    render=Renderer(
        open="<｜tool_calls_begin｜>\n",
        call='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="$name">\n$parameters</steptml:invoke><｜tool_call_end｜>',
        parameter='<steptml:parameter name="$key">$value</steptml:parameter>\n',
        close="\n<｜tool_calls_end｜>",
    ),
)
