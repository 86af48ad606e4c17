"""
How long healing takes: the median over the cases, and growth on texts made to hurt.

`python bench/healing.py [cases.json]`
"""

import json
import statistics
import sys
from pathlib import Path
from time import process_time

from toolbridge.healing import heal
from toolbridge.wire.json_stream import JsonReader

CASES = Path(__file__).parents[1] / "tests/healing/cases.json"
SCHEMA = {
    "type": "object",
    "properties": {"content": {"type": "string"}, "file_path": {"type": "string"}},
    "required": ["content", "file_path"],
}
HOSTILE = {
    "cut string, escaped quotes": lambda n: '{"content": "' + '\\"a\\", ' * (n // 7),
    "cut string, bare quotes": lambda n: '{"content": "' + '"a", ' * (n // 5),
    "quotes": lambda n: '{"content": ' + '"' * n,
    "single quotes": lambda n: "{'content': " + "'" * n,
    "backslashes": lambda n: '{"content": "' + "\\" * n,
    "commas": lambda n: '{"content": 1' + "," * n,
    "newlines": lambda n: '{"content": x' + "\n" * n + "y",
    "spaces after quotes": lambda n: '{"content": "' + ('"' + " " * 50) * (n // 51),
    "brackets": lambda n: "[" * n,
    "braces": lambda n: '{"a":' * (n // 5),
    "closers": lambda n: '{"a": 1' + "}" * n,
    "comments": lambda n: '{"a": 1, ' + "/*" * (n // 2),
    "comment after quotes": lambda n: '{"a": "' + '"#' * (n // 2),
    "escaped white space": lambda n: '{"a": "x"' + "\\n" * (n // 2),
    "colons": lambda n: '{"a": "' + '"b":' * (n // 4),
    "half keys": lambda n: '{"a: ' * (n // 5),
    "restarts": lambda n: '{"content": "a"' * (n // 15),
    "growing copies": lambda n: "".join(
        '{"content": "' + "a" * i for i in range(int((2 * n) ** 0.5))
    ),
    "objects": lambda n: '{"a":1}' * (n // 7),
    "bare words": lambda n: "{a: " + "b, " * (n // 3),
    "bare braces": lambda n: "{a: " + "{b}, " * (n // 5),
    "prose": lambda n: "the { of it " * (n // 12),
    "entities": lambda n: "{&quot;a&quot;: &quot;" + "&amp;" * (n // 5),
    "tags": lambda n: '{"a": "' + '"</b>' * (n // 5),
    "triple quotes": lambda n: '{"a": ' + '"""' * (n // 3),
    "plus": lambda n: '{"a": ' + '"x" + ' * (n // 6),
    "digits": lambda n: '{"a": ' + "1" * n,
    "strange members": lambda n: "{" + ", ".join(f'"k{i}": {i}' for i in range(n // 12)) + ",}",
    "one name, many spellings": lambda n: (
        "{"
        + ", ".join(f'"{"_" * (i % 50)}con{"-" * (i // 50)}tent": 1' for i in range(n // 40))
        + ",}"
    ),
    "valid": lambda n: json.dumps({"content": 'x = "y"\n' * (n // 10), "file_path": "a"}),
    "records": lambda n: json.dumps({"content": [{"id": i} for i in range(n // 12)]}),
}


def best(action, rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        start = process_time()
        action()
        times.append(process_time() - start)
    return min(times)


def report_median(path: Path) -> None:
    cases = [case for case in json.loads(path.read_text()) if case.get("kind") != "name"]
    times = sorted(
        best(lambda c=case: [heal(c["input"], c.get("schema")) for _ in range(20)], 7) / 20 * 1e6
        for case in cases
    )
    print(f"{len(times)} texts: median {statistics.median(times):.1f} µs,", end=" ")
    print(f"p95 {times[int(len(times) * 0.95)]:.1f} µs, longest {times[-1]:.1f} µs\n")


def report_growth() -> None:
    print("| text | 32 KB, ms | 64 KB, ms | 128 KB, ms |\n|---|--:|--:|--:|")
    for name, make in HOSTILE.items():
        texts = [make(size) for size in (32_000, 64_000, 128_000)]
        row = [best(lambda text=text: heal(text, SCHEMA), 2) * 1000 for text in texts]
        print(f"| {name} | " + " | ".join(f"{time:.1f}" for time in row) + " |")


def report_stream() -> None:
    print(
        "\n| stream, 10 characters at a time | 10 KB, ms | 100 KB, ms | 1 MB, ms | µs per piece |"
    )
    print("|---|--:|--:|--:|--:|")
    makers = {
        "string": lambda n: json.dumps({"content": 'x = "y"\n' * (n // 11)}),
        "records": lambda n: json.dumps(
            [{"id": i, "name": "n", "ok": True} for i in range(n // 35)]
        ),
    }
    for name, make in makers.items():
        row = []
        for size in (10_000, 100_000, 1_000_000):
            text = make(size)
            pieces = [text[at : at + 10] for at in range(0, len(text), 10)]
            row.append(best(lambda p=pieces: _stream(p), 2) * 1000)
        print(f"| {name} | " + " | ".join(f"{t:.1f}" for t in row) + f" | {row[-1] / 100:.2f} |")


def _stream(pieces: list[str]) -> None:
    reader = JsonReader()
    for piece in pieces:
        reader.feed(piece)
        assert reader.value is not None
    reader.close()


if __name__ == "__main__":
    report_median(Path(sys.argv[1]) if len(sys.argv) > 1 else CASES)
    report_growth()
    report_stream()
