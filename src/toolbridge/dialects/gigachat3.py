"""GigaChat 3: JSON after a token or a role."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="gigachat3",
    marks=("<|function_call|>", "function call<|role_sep|>"),
    reader=Prose(
        {
            "<|function_call|>": (JsonBody(only="{"),),
            "function call<|role_sep|>": (JsonBody(only="{"),),
        },
        drop=("<|message_sep|>", "</s>"),
    ),
    render=Writing(call=f"<|function_call|>{NAME_ARGUMENTS}", between=""),
)
