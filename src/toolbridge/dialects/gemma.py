"""Google's Gemma: `call:NAME{…}` with a token for quotes.

`gemma4` follows the template of google/gemma-4-31B-it and quotes with `<|"|>`; `functiongemma`
follows google/functiongemma-270m-it and quotes with `<escape>`. Models leave out the comma after a
string, the word `call`, or the arguments.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.gemma import GemmaCalls
from toolbridge.dialects.engines.mark_reader import MarkReader, Span
from toolbridge.dialects.engines.render import Renderer, quoted_with

_QUOTE = '<|"|>'
_GEMMA4_CALLS = GemmaCalls(
    _QUOTE,
    ("<tool_call|>",),
    inner='"',
    opener=("<|tool_call>", "<turn|>", "<|tool_response>"),
    forward=True,
)
_GEMMA4 = Dialect(
    name="gemma4",
    marks=("<|tool_call>",),
    reader=MarkReader(
        {"<|tool_call>": (_GEMMA4_CALLS,), "call:": (_GEMMA4_CALLS,)},
        thoughts=(
            Span("<|channel>thought\n", "<channel|>"),
            Span("<|channel>thought", "<channel|>"),
            Span("<|channel>", "<channel|>"),
        ),
        first=("call:",),
        drop=("<turn|>",),
        leftovers=("<|tool_response>",),
        drop_closers=True,
    ),
    render=Renderer(
        call="<|tool_call>call:$name{$parameters}<tool_call|>",
        parameter="$key:$value",
        between_parameters=",",
        between="",
        spell=quoted_with(_QUOTE),
        result=f"<|tool_response>response:$name{{value:{_QUOTE}$result{_QUOTE}}}<tool_response|>",
        between_results="",
    ),
)
_FUNCTIONGEMMA_CALLS = GemmaCalls(
    "<escape>", ("<end_function_call>",), opener=("<start_function_call>", "<end_of_turn>")
)
_FUNCTIONGEMMA = Dialect(
    name="functiongemma",
    marks=("<start_function_call>",),
    reader=MarkReader(
        {"<start_function_call>": (_FUNCTIONGEMMA_CALLS,)},
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
DIALECTS = (_GEMMA4, _FUNCTIONGEMMA)
