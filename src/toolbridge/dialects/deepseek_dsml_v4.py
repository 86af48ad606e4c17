"""DeepSeek V4: invocations in its own markup."""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.invoke_xml import dsml
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer

_CALLS = dsml("tool_calls")
DIALECT = Dialect(
    name="deepseek_dsml_v4",
    marks=_CALLS.wrapper,
    reader=MarkReader(
        dict.fromkeys([*_CALLS.wrapper, *_CALLS.call], (_CALLS,)), drop=("<｜end▁of▁sentence｜>",)
    ),
    render=Renderer(
        open="\n\n<｜DSML｜tool_calls>\n",
        call='<｜DSML｜invoke name="$name">\n$parameters</｜DSML｜invoke>',
        parameter='<｜DSML｜parameter name="$key" string="$text">$value</｜DSML｜parameter>\n',
        close="\n</｜DSML｜tool_calls>",
        result="<tool_result>$result</tool_result>",
    ),
)
