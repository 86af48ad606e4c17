"""Cohere Command A and R7B: a list of actions."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader, Span
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
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
        result='    {"tool_call_id": "$id", "results": {"0": $json}, "is_error": null}',
        between_results=",\n",
        results_close="\n]<|END_TOOL_RESULT|>",
    ),
)
