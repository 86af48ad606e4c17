"""Granite 20B: JSON after `<function_call>`.

ibm-granite/granite-20b-functioncalling with vLLM's tool_chat_template_granite_20b_fc.jinja.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="granite_20b_fc",
    marks=("<function_call>",),
    reader=MarkReader({"<function_call>": (JsonBody(only="{"),)}),
    render=Renderer(call=f"<function_call> {NAME_ARGUMENTS}", result="<function_response> $result"),
)
