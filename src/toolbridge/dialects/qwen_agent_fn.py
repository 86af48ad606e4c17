"""Qwen-Agent: names and arguments behind flowers."""

# ruff: noqa: RUF001 -- the model may write a fullwidth colon

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.tag_json import NamedJson
from toolbridge.dialects.engines.writing import Writing

_CALLS = NamedJson(
    before=(":", "："),
    separators=("✿ARGS✿:", "✿ARGS✿：", "✿ARGS✿"),
    call=("✿FUNCTION✿",),
)
DIALECT = Dialect(
    name="qwen_agent_fn",
    marks=("✿FUNCTION✿",),
    reader=Prose({"✿FUNCTION✿": (_CALLS,)}, drop=("✿RESULT✿", "✿RETURN✿")),
    render=Writing(call="✿FUNCTION✿: $name\n✿ARGS✿: $arguments", result="✿RESULT✿: $result"),
)
