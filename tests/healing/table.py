"""
Our score on the cases, class by class, and the time that it takes.

`python -m tests.healing.table [cases.json]`
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from time import process_time_ns

from toolbridge.healing import heal, heal_name

SHARED = Path(__file__).parents[2] / "../shared/cases/healing.json"
OWN = Path(__file__).with_name("cases.json")


def answer(case: dict) -> object:
    if case.get("kind") == "name":
        return heal_name(case["input"], case["tools"])
    return heal(case["input"], case.get("schema")).value


def right(case: dict) -> bool:
    found = answer(case)
    return json.dumps(found, sort_keys=True) == json.dumps(case["expected"], sort_keys=True) or (
        found == case["expected"]
    )


def micros(case: dict) -> float:
    best = []
    for _ in range(7):
        start = process_time_ns()
        for _ in range(10):
            answer(case)
        best.append((process_time_ns() - start) / 10_000)
    return min(best)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED if SHARED.exists() else OWN
    cases = json.loads(path.read_text())
    classes = defaultdict(list)
    for case in cases:
        classes[case["class"]].append((case, right(case)))
    print("| class | right | of |\n|---|--:|--:|")
    for name, found in classes.items():
        print(f"| {name} | {sum(ok for _, ok in found)} | {len(found)} |")
    everything = [pair for found in classes.values() for pair in found]
    clear = [(case, ok) for case, ok in everything if not case.get("ambiguous")]
    times = sorted(micros(case) for case in cases)
    print(f"\nall: {sum(ok for _, ok in everything)}/{len(everything)}")
    print(f"unambiguous: {sum(ok for _, ok in clear)}/{len(clear)}")
    print(f"median {statistics.median(times):.1f} µs, p95 {times[int(len(times) * 0.95)]:.1f} µs")
    for case, ok in everything:
        if not ok:
            print(
                f"wrong: {case['id']}: {case['input']!r:.100} -> {answer(case)!r:.200}, not {case['expected']!r:.100}"
            )


if __name__ == "__main__":
    main()
