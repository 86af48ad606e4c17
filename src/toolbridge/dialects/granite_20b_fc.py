"""Granite 20B: JSON after `<function_call>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="granite_20b_fc",
    marks=("<function_call>",),
    reader=Prose({"<function_call>": (JsonBody(only="{"),)}),
    render=Writing(call=f"<function_call> {NAME_ARGUMENTS}", result="<function_response> $result"),
)
