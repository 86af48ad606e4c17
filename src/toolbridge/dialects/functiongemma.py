"""FunctionGemma: as Gemma 4, with `<escape>` for quotes."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.gemma import GemmaCalls
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer, quoted_with

_CALLS = GemmaCalls(
    "<escape>", ("<end_function_call>",), opener=("<start_function_call>", "<end_of_turn>")
)
DIALECT = Dialect(
    name="functiongemma",
    marks=("<start_function_call>",),
    reader=MarkReader(
        {"<start_function_call>": (_CALLS,)},
        drop=("<end_of_turn>",),
    ),
    render=Renderer(
        call="<start_function_call>call:$name{$parameters}<end_function_call>",
        parameter="$key:$value",
        between_parameters=",",
        between="",
        spell=quoted_with("<escape>"),
        result="Function result for $name: $result",
    ),
)
