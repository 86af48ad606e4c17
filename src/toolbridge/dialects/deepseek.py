"""DeepSeek V3, R1 and V3.1: calls between marks with fullwidth bars.

`deepseek_v3` (V3-0324, R1-0528) writes the name and fenced JSON, `deepseek_v31` (V3.1, Terminus) the
name, a separator and JSON: templates tool_chat_template_deepseekv3.jinja of vLLM and
deepseek-ai/DeepSeek-V3.1. `cogito` (Cogito v2) writes the format of V3. The bars are U+FF5C
and the low line is U+2581; servers and fine-tunes write the ASCII look-alikes too.
"""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

from dataclasses import dataclass, field, replace

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tag_json import NamedJson
from toolbridge.wire.tags import Marks, Wait

_SPELLINGS = ("<｜{}｜>", "<|{}|>")
_GAPS = ("▁", "_", " ")


def _spelled(words: str) -> tuple[str, ...]:
    return tuple(
        spelling.format(words.replace(" ", gap)) for spelling in _SPELLINGS for gap in _GAPS
    )


_BEGIN = _spelled("tool calls begin")
_END = _spelled("tool calls end")
_CALL = _spelled("tool call begin")
_CALL_END = _spelled("tool call end")
_SEPARATOR = _spelled("tool sep")
_OUTPUTS = _spelled("tool outputs begin")
_OUTPUTS_END = _spelled("tool outputs end")
_DROP = (
    *_OUTPUTS,
    *_OUTPUTS_END,
    *_spelled("tool output begin"),
    *_spelled("tool output end"),
    "<｜end▁of▁sentence｜>",
)


@dataclass(frozen=True)
class MadeUpOutputs:
    """Skips tool results that the model invented instead of waiting for them."""

    ends: Marks = field(default_factory=lambda: Marks(_OUTPUTS_END))

    @property
    def closing(self) -> tuple[str, ...]:
        return ()

    def __call__(self, writer: EventWriter, _mark: str, /) -> Wait[None]:
        if not (yield from writer.cursor.until(self.ends, lambda _: None)):
            raise NotACall("unfinished results")


_DEEPSEEK_V3_CALLS = NamedJson(
    before=tuple("function" + mark for mark in _SEPARATOR),
    needs_before=True,
    fence=True,
    section=_BEGIN,
    section_close=_END,
    call=_CALL,
    close=_CALL_END,
)
_DEEPSEEK_V3 = Dialect(
    name="deepseek_v3",
    marks=_BEGIN,
    reader=MarkReader(
        {
            **dict.fromkeys((*_BEGIN, *_CALL), (_DEEPSEEK_V3_CALLS,)),
            **dict.fromkeys(_OUTPUTS, (MadeUpOutputs(),)),
        },
        drop=_DROP,
    ),
    render=Renderer(
        open="<｜tool▁calls▁begin｜>",
        call="<｜tool▁call▁begin｜>function<｜tool▁sep｜>$name\n```json\n$arguments\n```<｜tool▁call▁end｜>",
        close="<｜tool▁calls▁end｜>",
        results_open="<｜tool▁outputs▁begin｜>",
        result="<｜tool▁output▁begin｜>$result<｜tool▁output▁end｜>",
        between_results="",
        results_close="<｜tool▁outputs▁end｜>",
    ),
)
_DEEPSEEK_V31_CALLS = NamedJson(
    separators=_SEPARATOR,
    section=_BEGIN,
    section_close=_END,
    call=_CALL,
    close=_CALL_END,
)
_DEEPSEEK_V31 = Dialect(
    name="deepseek_v31",
    marks=_BEGIN,
    reader=MarkReader(
        {
            **dict.fromkeys((*_BEGIN, *_CALL), (_DEEPSEEK_V31_CALLS,)),
            **dict.fromkeys(_OUTPUTS, (MadeUpOutputs(),)),
        },
        drop=_DROP,
    ),
    render=Renderer(
        open="<｜tool▁calls▁begin｜>",
        call="<｜tool▁call▁begin｜>$name<｜tool▁sep｜>$arguments<｜tool▁call▁end｜>",
        close="<｜tool▁calls▁end｜>",
        between="",
        result="<｜tool▁output▁begin｜>$result<｜tool▁output▁end｜>",
        between_results="",
    ),
)
_COGITO = replace(_DEEPSEEK_V3, name="cogito")
DIALECTS = (_DEEPSEEK_V3, _DEEPSEEK_V31, _COGITO)
