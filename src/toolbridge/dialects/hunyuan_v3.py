"""Tencent Hy3: `<arg_key>`/`<arg_value>` pairs after `<tool_sep>`.

The template of tencent/Hy3. The published tokenizer adds a suffix to every mark
(`<tool_calls:opensource>`), so marks are written with it and read with any suffix.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.arg_pairs import PairCalls
from toolbridge.dialects.engines.mark_reader import THINK, MarkReader, Span
from toolbridge.dialects.engines.render import Renderer

_CALLS = PairCalls(
    call_close=("</tool_call", "<end_of_tool_call"),
    wrapper=("<tool_calls",),
    wrapper_close=("</tool_calls",),
)
DIALECT = Dialect(
    name="hunyuan_v3",
    marks=("<tool_calls>", "<tool_call>", "<tool_call:", "<tool_calls:"),
    reader=MarkReader(
        {"<tool_calls": (_CALLS,), "<tool_call": (_CALLS,)},
        thoughts=(*THINK, Span("<think:opensource>", "</think:opensource>")),
    ),
    render=Renderer(
        open="<tool_calls:opensource>\n",
        call="<tool_call:opensource>$name<tool_sep:opensource>\n$parameters</tool_call:opensource>",
        parameter="<arg_key:opensource>$key</arg_key:opensource>\n<arg_value:opensource>$value</arg_value:opensource>\n",
        close="\n</tool_calls:opensource>",
        results_open="<tool_responses:opensource>\n",
        result="<tool_response:opensource>\n$result\n</tool_response:opensource>",
        results_close="\n</tool_responses:opensource>",
    ),
)
