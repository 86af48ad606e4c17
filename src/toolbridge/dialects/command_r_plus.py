"""Cohere Command R+: `Action:` and fenced JSON."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import Shape
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.tag_json import JsonBody
from toolbridge.dialects.engines.writing import Writing

DIALECT = Dialect(
    name="command_r_plus",
    marks=("Action:",),
    reader=Prose(
        {"Action:": (JsonBody(shape=Shape(strict=True), fence=True),)},
        drop=("<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
    ),
    render=Writing(
        open="Action:\n```json\n[",
        call='{"tool_name": $json_name, "parameters": $arguments}',
        between=", ",
        close="]\n```",
        results_open="<results>\n",
        results_close="</results>",
    ),
)
