"""The incremental JSON reader: microseconds per ten-byte delta, the value asked after each.

`python bench/json_stream.py`. Beside it, jiter in partial mode, which parses from the beginning each
time (only for the smallest size: it is quadratic).
"""

from time import process_time

from toolbridge.core.json import dumps
from toolbridge.wire.json_stream import JsonReader

try:
    import jiter
except ImportError:
    jiter = None

MAKE = {
    "one long string": lambda n: dumps({"content": 'line "one"\n' * (n // 14)}),
    "many records": lambda n: dumps([{"id": i, "ok": True} for i in range(n // 20)]),
    "text beyond ASCII": lambda n: dumps({"content": "é" * (n // 2)}),
}
SIZES = (10_000, 20_000, 100_000, 200_000, 1_000_000)


def ours(text: str) -> float:
    reader, start = JsonReader(), process_time()
    for at in range(0, len(text), 10):
        reader.feed(text[at : at + 10])
        assert reader.value is not None
    return process_time() - start


def theirs(text: str) -> float:
    data, start = text.encode(), process_time()
    for at in range(10, len(data) + 10, 10):
        jiter.from_json(data[:at], partial_mode="trailing-strings")
    return process_time() - start


def main() -> None:
    for name, make in MAKE.items():
        for size in SIZES:
            text = make(size)
            best = min(ours(text) for _ in range(3))
            line = f"{name:20} {size:>9} {best / (len(text) / 10) * 1e6:6.2f} us/delta"
            if jiter is not None and size <= 100_000:
                line += f"   jiter {theirs(text) / (len(text) / 10) * 1e6:8.2f}"
            print(line, flush=True)


main()
