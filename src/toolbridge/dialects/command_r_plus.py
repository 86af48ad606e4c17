"""Cohere Command R+: `Action:` and fenced JSON."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="command_r_plus",
    marks=("Action:",),
    reader=MarkReader(
        {"Action:": (JsonBody(shape=CallShape(strict=True), fence=True),)},
        drop=("<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
    ),
    render=Renderer(
        open="Action:\n```json\n[",
        call='{"tool_name": $json_name, "parameters": $arguments}',
        between=", ",
        close="]\n```",
        results_open="<results>\n",
        results_close="</results>",
    ),
)
