"""Seed-OSS: `<function=NAME>` in `<seed:tool_call>`.

The template of ByteDance-Seed/Seed-OSS-36B-Instruct: the format of Qwen3-Coder with other wrappers and
without line ends around values.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.function_xml import function_xml
from toolbridge.dialects.engines.mark_reader import MarkReader, Span
from toolbridge.dialects.engines.render import Renderer

_CALLS = function_xml("<seed:tool_call>", "</seed:tool_call>", newlines=False)
DIALECT = Dialect(
    name="seed_oss",
    marks=("<seed:tool_call>",),
    reader=MarkReader(
        {"<seed:tool_call>": (_CALLS,), "<function=": (_CALLS,)},
        thoughts=(Span("<seed:think>", "</seed:think>"),),
    ),
    render=Renderer(
        call="<seed:tool_call>\n<function=$name>\n$parameters</function>\n</seed:tool_call>",
        parameter="<parameter=$key>$value</parameter>\n",
    ),
)
