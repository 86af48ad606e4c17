"""Cohere's Command models: a JSON array of actions.

`cohere_cmd3` follows the tool template of c4ai-command-r7b-12-2024 (Command A, Command R7B),
`cohere_cmd4` is the same format in Command 4 (parsers `cohere_command3` in vLLM and
`cohere_command4` in SGLang). `command_r_plus` follows the tool template of c4ai-command-r-plus:
`Action:` and fenced JSON.
"""

from dataclasses import replace

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader, Span
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

_COHERE_CMD3 = Dialect(
    name="cohere_cmd3",
    marks=("<|START_ACTION|>",),
    reader=MarkReader(
        {
            "<|START_ACTION|>": (
                JsonBody(close=("<|END_ACTION|>",), shape=CallShape(ends=("<|END_ACTION|>",))),
            )
        },
        thoughts=(Span("<|START_THINKING|>", "<|END_THINKING|>"),),
        drop=(
            "<|START_RESPONSE|>",
            "<|END_RESPONSE|>",
            "<|START_TEXT|>",
            "<|END_TEXT|>",
            "<|END_OF_TURN_TOKEN|>",
        ),
        drop_tags=("<co", "</co"),
        drop_closers=True,
    ),
    render=Renderer(
        open="<|START_ACTION|>[\n    ",
        call='{"tool_call_id": "$id", "tool_name": $json_name, "parameters": $arguments}',
        between=",\n    ",
        close="\n]<|END_ACTION|>",
        results_open="<|START_TOOL_RESULT|>[\n",
        result=(
            '    {\n        "tool_call_id": "$id",\n        "results": {\n            "0": $json\n'
            '        },\n        "is_error": null\n    }'
        ),
        between_results=",\n",
        results_close="\n]<|END_TOOL_RESULT|>",
    ),
)
_COHERE_CMD4 = replace(_COHERE_CMD3, name="cohere_cmd4")
_COMMAND_R_PLUS = Dialect(
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
DIALECTS = (_COHERE_CMD3, _COHERE_CMD4, _COMMAND_R_PLUS)
