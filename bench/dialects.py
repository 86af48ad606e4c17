"""The reader of text: microseconds per ten-character delta, with tools offered.

`python bench/dialects.py`. Prose, and calls in the forms of Hermes and Qwen, through the reader alone
and through the stage that stands behind a decoder; with the dialect named, and with `auto`.
"""

from collections.abc import Callable
from time import process_time

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.json import dumps
from toolbridge.core.messages import Tool
from toolbridge.dialects.reader import TextReader
from toolbridge.dialects.stage import DialectStage

SIZES = (10_000, 20_000, 40_000)
TOOLS = [
    Tool(
        "write_file",
        "Write a file",
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        },
    ),
    Tool("list_files", "List files", {"type": "object", "properties": {}}),
]
LINE = 'The house is small, but it has a garden; "who lives there?" asked the man.\n'


def prose(size: int) -> str:
    return LINE * (size // len(LINE))


def hermes(size: int) -> str:
    call = {"name": "write_file", "arguments": {"path": "a.txt", "content": prose(size)}}
    return f"<tool_call>\n{dumps(call)}\n</tool_call>"


def qwen(size: int) -> str:
    path = "<parameter=path>\na.txt\n</parameter>"
    content = f"<parameter=content>\n{prose(size)}</parameter>"
    return f"<tool_call>\n<function=write_file>\n{path}\n{content}\n</function>\n</tool_call>"


ROWS = (
    ("prose", prose, "hermes_json"),
    ("prose", prose, "qwen3_xml"),
    ("prose", prose, "auto"),
    ("call, Hermes", hermes, "hermes_json"),
    ("call, Hermes", hermes, "auto"),
    ("call, Qwen", qwen, "qwen3_xml"),
    ("call, Qwen", qwen, "auto"),
)


def cut(text: str) -> list[str]:
    return [text[at : at + 10] for at in range(0, len(text), 10)]


def read(pieces: list[str], dialect: str) -> float:
    reader, start = TextReader(TOOLS, dialect=dialect), process_time()
    for piece in pieces:
        reader.feed(piece)
    reader.close()
    return process_time() - start


def run_stage(pieces: list[str], dialect: str) -> float:
    draft = Draft()
    events: list[ev.Event] = [event for piece in pieces for event in draft.text(piece)]
    events += draft.finish("end")
    stage, start = DialectStage(TOOLS, dialect=dialect), process_time()
    for event in events:
        stage.feed(event)
    stage.close()
    return process_time() - start


def best(run: Callable[[list[str], str], float], text: str, dialect: str) -> float:
    pieces = cut(text)
    return min(run(pieces, dialect) for _ in range(5)) / len(pieces) * 1e6


def main() -> None:
    sizes = " | ".join(f"{size // 1000} KB" for size in SIZES)
    print(f"| text | dialect | through | {sizes} |\n|---|---|---|{'--:|' * len(SIZES)}")
    for name, make, dialect in ROWS:
        for through, run in (("reader", read), ("stage", run_stage)):
            times = [best(run, make(size), dialect) for size in SIZES]
            cells = " | ".join(f"{time:.2f}" for time in times)
            print(f"| {name} | {dialect} | {through} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
