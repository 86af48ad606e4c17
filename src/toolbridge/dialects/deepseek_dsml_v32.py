"""DeepSeek V3.2: invocations in its own markup."""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.invoke_xml import dsml
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer

_CALLS = dsml("function_calls")
DIALECT = Dialect(
    name="deepseek_dsml_v32",
    marks=_CALLS.wrapper,
    reader=MarkReader(
        dict.fromkeys([*_CALLS.wrapper, *_CALLS.call], (_CALLS,)), drop=("<｜end▁of▁sentence｜>",)
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
