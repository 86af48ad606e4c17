"""Qwen-Agent: name and arguments after `✿FUNCTION✿` and `✿ARGS✿`.

The function call prompt of QwenLM/Qwen-Agent for Qwen 1.5 and Qwen 2.
"""

# ruff: noqa: RUF001 -- the model may write a fullwidth colon

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tag_json import NamedJson

_CALLS = NamedJson(
    before=(":", "："),
    separators=("✿ARGS✿:", "✿ARGS✿：", "✿ARGS✿"),
    call=("✿FUNCTION✿",),
)
DIALECT = Dialect(
    name="qwen_agent_fn",
    marks=("✿FUNCTION✿",),
    reader=MarkReader({"✿FUNCTION✿": (_CALLS,)}, drop=("✿RESULT✿", "✿RETURN✿")),
    render=Renderer(call="✿FUNCTION✿: $name\n✿ARGS✿: $arguments", result="✿RESULT✿: $result"),
)
