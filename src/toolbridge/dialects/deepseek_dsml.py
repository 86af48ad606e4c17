"""DeepSeek V3.2 and V4: invocations in DSML, DeepSeek's markup.

The templates of deepseek-ai/DeepSeek-V3.2 and DeepSeek-V4 differ in the wrapper and in how results
are written. A parameter states whether it is a string (`string="true"`), so no schema is needed; where
the schema declares another type, the schema wins.
"""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.invoke_xml import dsml
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer

_DEEPSEEK_DSML_V32_CALLS = dsml("function_calls")
_DEEPSEEK_DSML_V32 = Dialect(
    name="deepseek_dsml_v32",
    marks=_DEEPSEEK_DSML_V32_CALLS.wrapper,
    reader=MarkReader(
        dict.fromkeys(
            [*_DEEPSEEK_DSML_V32_CALLS.wrapper, *_DEEPSEEK_DSML_V32_CALLS.call],
            (_DEEPSEEK_DSML_V32_CALLS,),
        ),
        drop=("<｜end▁of▁sentence｜>",),
    ),
    render=Renderer(
        open="\n\n<｜DSML｜function_calls>\n",
        call='<｜DSML｜invoke name="$name">\n$parameters</｜DSML｜invoke>',
        parameter='<｜DSML｜parameter name="$key" string="$text">$value</｜DSML｜parameter>\n',
        close="\n</｜DSML｜function_calls>",
        results_open="<function_results>\n",
        result="<result>$result</result>",
        results_close="\n</function_results>",
    ),
)
_DEEPSEEK_DSML_V4_CALLS = dsml("tool_calls")
_DEEPSEEK_DSML_V4 = Dialect(
    name="deepseek_dsml_v4",
    marks=_DEEPSEEK_DSML_V4_CALLS.wrapper,
    reader=MarkReader(
        dict.fromkeys(
            [*_DEEPSEEK_DSML_V4_CALLS.wrapper, *_DEEPSEEK_DSML_V4_CALLS.call],
            (_DEEPSEEK_DSML_V4_CALLS,),
        ),
        drop=("<｜end▁of▁sentence｜>",),
    ),
    render=Renderer(
        open="\n\n<｜DSML｜tool_calls>\n",
        call='<｜DSML｜invoke name="$name">\n$parameters</｜DSML｜invoke>',
        parameter='<｜DSML｜parameter name="$key" string="$text">$value</｜DSML｜parameter>\n',
        close="\n</｜DSML｜tool_calls>",
        result="<tool_result>$result</tool_result>",
    ),
)
DIALECTS = (_DEEPSEEK_DSML_V32, _DEEPSEEK_DSML_V4)
