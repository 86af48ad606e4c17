"""Seed-OSS: `<function=NAME>` in `<seed:tool_call>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.function_xml import function_xml
from toolbridge.dialects.engines.prose import Prose, Span
from toolbridge.dialects.engines.writing import Writing

_CALLS = function_xml("<seed:tool_call>", "</seed:tool_call>", newlines=False)
DIALECT = Dialect(
    name="seed_oss",
    marks=("<seed:tool_call>",),
    reader=Prose(
        {"<seed:tool_call>": (_CALLS,), "<function=": (_CALLS,)},
        thoughts=(Span("<seed:think>", "</seed:think>"),),
    ),
    render=Writing(
        call="<seed:tool_call>\n<function=$name>\n$parameters</function>\n</seed:tool_call>",
        parameter="<parameter=$key>$value</parameter>\n",
    ),
)
