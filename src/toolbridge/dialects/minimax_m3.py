"""MiniMax M3: a tree of tags, each after the token `]<]minimax[>[`.

The template of MiniMaxAI/MiniMax-M3. Nested objects and lists are nested tags.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader, Span
from toolbridge.dialects.engines.render import Renderer, tree_with
from toolbridge.dialects.engines.tag_tree import TreeCalls

_TOKEN = "]<]minimax[>["  # noqa: S105 -- it opens tags, not doors
DIALECT = Dialect(
    name="minimax_m3",
    marks=(_TOKEN,),
    reader=MarkReader(
        {_TOKEN: (TreeCalls(_TOKEN),)},
        thoughts=(Span("<mm:think>", "</mm:think>"),),
        drop=("[e~[",),
    ),
    render=Renderer(
        open=_TOKEN + "<tool_call>\n",
        call=f'{_TOKEN}<invoke name="$name">$parameters{_TOKEN}</invoke>',
        parameter=f"{_TOKEN}<$key>$value{_TOKEN}</$key>",
        close="\n" + _TOKEN + "</tool_call>",
        result="<response>$result</response>",
        spell=tree_with(_TOKEN),
    ),
)
