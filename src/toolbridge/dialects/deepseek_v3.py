"""DeepSeek V3 and R1: a name and fenced JSON."""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.deepseek import (
    BEGIN,
    CALL,
    CALL_END,
    DROP,
    END,
    OUTPUTS,
    SEPARATOR,
    MadeUpOutputs,
)
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tag_json import NamedJson

_CALLS = NamedJson(
    before=tuple("function" + mark for mark in SEPARATOR),
    needs_before=True,
    fence=True,
    section=BEGIN,
    section_close=END,
    call=CALL,
    close=CALL_END,
)
DIALECT = Dialect(
    name="deepseek_v3",
    marks=BEGIN,
    reader=MarkReader(
        {
            **dict.fromkeys((*BEGIN, *CALL), (_CALLS,)),
            **dict.fromkeys(OUTPUTS, (MadeUpOutputs(),)),
        },
        drop=DROP,
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
