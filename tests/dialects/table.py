"""Prints, by dialect, how many hard cases are read right, for every way of cutting the text.

python -m tests.dialects.table [--shared] [--auto] [--faults] [DIALECT …]
"""

import sys
from collections import defaultdict

from tests.dialects.cases import (
    CLASSES,
    CUTS,
    OWN,
    SHARED,
    disputed,
    faults_of,
    is_hard,
    load,
)


def main(arguments: list[str]) -> int:
    options = {a for a in arguments if a.startswith("--")}
    wanted = [a for a in arguments if not a.startswith("--")]
    out = disputed()
    cases = [
        case
        for case in load(SHARED if "--shared" in options else OWN) + load(CLASSES)
        if is_hard(case) and case["id"] not in out and (not wanted or case["dialect"] in wanted)
    ]
    rows: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(CUTS, 0))
    totals: dict[str, int] = defaultdict(int)
    for case in cases:
        totals[case["dialect"]] += 1
        asked = {**case, "dialect": "auto"} if "--auto" in options else case
        for cut in CUTS:
            found = _faults(asked, cut)
            rows[case["dialect"]][cut] += not found
            if found and "--faults" in options and (cut == "whole" or not _faults(asked, "whole")):
                _show(case, cut, found)
    _print(rows, totals)
    _print_matrix(wanted)
    _print_classes(wanted)
    return 0 if all(rows[d][cut] == totals[d] for d in totals for cut in CUTS) else 1


def _faults(case: dict, cut: str) -> list[str]:
    try:
        return faults_of(case, cut)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def _show(case: dict, cut: str, found: list[str]) -> None:
    print(f"## {case['id']} {case['layer']} {cut} {case.get('init', '')}")
    print("  ", repr(case["input"][:400]))
    for fault in found:
        print("   -", fault[:600])


def _print(rows: dict[str, dict[str, int]], totals: dict[str, int]) -> None:
    print(f"{'dialect':20}{'cases':>7}" + "".join(f"{cut:>9}" for cut in CUTS))
    for dialect in sorted(totals):
        counts = "".join(f"{rows[dialect][cut]:>9}" for cut in CUTS)
        print(f"{dialect:20}{totals[dialect]:>7}{counts}")
    sums = "".join(f"{sum(row[cut] for row in rows.values()):>9}" for cut in CUTS)
    print(f"{'all':20}{sum(totals.values()):>7}{sums}")


def _print_matrix(wanted: list[str]) -> None:
    """Print how often the calls of the authored matrix are exactly right, soft cases included."""
    matrix = [
        case
        for case in load(OWN)
        if case["provenance"] == "authored" and (not wanted or case["dialect"] in wanted)
    ]
    marked = [case for case in matrix if case["scenario"].startswith("own_marker")]
    for title, cases in (("matrix, calls", matrix), ("own mark in a string", marked)):
        counts = "".join(f"{sum(_calls_are_right(c, cut) for c in cases):>9}" for cut in CUTS)
        print(f"{title:20}{len(cases):>7}{counts}")


def _print_classes(wanted: list[str]) -> None:
    """Print how many cases of each class of fault are read right."""
    classes = defaultdict(list)
    for case in load(CLASSES):
        if not wanted or case["dialect"] in wanted:
            classes[case["scenario"]].append(case)
    for title, cases in classes.items():
        counts = "".join(f"{sum(not _faults(c, cut) for c in cases):>9}" for cut in CUTS)
        print(f"{title:24}{len(cases):>3}{counts}")


def _calls_are_right(case: dict, cut: str) -> bool:
    expected = {**case["expected"], "content": None, "reasoning": None}
    return not _faults({**case, "expected": expected}, cut)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
