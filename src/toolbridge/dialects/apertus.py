"""Apertus: a JSON array of objects whose key is the tool's name.

The template of swiss-ai/Apertus-8B-Instruct-2509 writes it between `<|tools_prefix|>` and
`<|tools_suffix|>`; `<|inner_prefix|>` opens reasoning.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import CallShape
from toolbridge.dialects.engines.mark_reader import MarkReader, Span
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

DIALECT = Dialect(
    name="apertus",
    marks=("<|tools_prefix|>",),
    reader=MarkReader(
        {
            "<|tools_prefix|>": (
                JsonBody(
                    close=("<|tools_suffix|>",),
                    shape=CallShape(keyed=True, ends=("<|tools_suffix|>",)),
                ),
            )
        },
        thoughts=(Span("<|inner_prefix|>", "<|inner_suffix|>"),),
    ),
    render=Renderer(
        open="<|tools_prefix|>[",
        call="{$json_name: $arguments}",
        between=", ",
        close="]<|tools_suffix|>",
        results_open="[",
        between_results=", ",
        results_close="]",
    ),
)
