"""What a run came to: a table, JSON, and a picture for a page."""

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

import msgspec

from toolbridge.conformance.streams.cases import CATEGORIES
from toolbridge.conformance.streams.runner import StreamOutcome
from toolbridge.core.json import Json, JsonObject, dumps

_MEANT = {
    "json": "valid JSON under a stream",
    "partial": "partial frames and resuming",
    "tools": "tools in mid-stream",
    "interruptions": "interruptions",
    "backpressure": "back-pressure",
    "repair": "repair",
    "security": "security and limits",
    "compliance": "compliance and determinism",
}


def table(outcomes: Sequence[StreamOutcome]) -> str:
    """Return the cases, plays, successes and failures of each category."""
    rows = [["", "cases", "plays", "passed", "failed"]]
    rows += [_row(name, chosen) for name, chosen in _groups(outcomes)]
    rows.append(_row("all", outcomes))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(_line(row, widths) for row in rows)


def _groups(outcomes: Sequence[StreamOutcome]) -> Iterable[tuple[str, list[StreamOutcome]]]:
    for name in CATEGORIES:
        chosen = [o for o in outcomes if o.category == name]
        if chosen:
            yield name, chosen


def _row(name: str, outcomes: Sequence[StreamOutcome]) -> list[str]:
    passed = sum(o.passed for o in outcomes)
    plays = sum(o.plays for o in outcomes)
    return [name, str(len(outcomes)), str(plays), str(passed), str(len(outcomes) - passed)]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(row, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])


def failures(outcomes: Sequence[StreamOutcome]) -> str:
    lines: list[str] = []
    for outcome in outcomes:
        if not outcome.passed:
            lines.append(f"{outcome.category}/{outcome.case}: {outcome.proves}")
            lines += [f"    {fault}" for fault in outcome.faults]
    return "\n".join(lines)


def as_json(outcomes: Sequence[StreamOutcome]) -> str:
    """Return the matrix, the same for the same outcomes."""
    categories: JsonObject = {}
    for name, chosen in _groups(outcomes):
        passed = sum(o.passed for o in chosen)
        categories[name] = {"passed": passed, "failed": len(chosen) - passed}
    passed = sum(o.passed for o in outcomes)
    cases: list[Json] = [_result(outcome) for outcome in outcomes]
    matrix: JsonObject = {
        "passed": passed,
        "failed": len(outcomes) - passed,
        "plays": sum(o.plays for o in outcomes),
        "categories": categories,
        "cases": cases,
    }
    return msgspec.json.format(dumps(matrix), indent=1)


def _result(outcome: StreamOutcome) -> JsonObject:
    return {
        "case": outcome.case,
        "category": outcome.category,
        "proves": outcome.proves,
        "plays": outcome.plays,
        "passed": outcome.passed,
        "faults": [*outcome.faults],
    }


_LEFT, _TOP, _STEP, _ROW = 224, 52, 16, 26
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 } .count { fill: #59636e }
.back { fill: #ffffff } .passed { fill: #2da44e } .failed { fill: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .count { fill: #9198a1 } .back { fill: #0d1117 }
.passed { fill: #3fb950 } .failed { fill: #f85149 } }"""


def as_svg(outcomes: Sequence[StreamOutcome]) -> str:
    """Return a picture: one row per category, one square per case, its name on hovering."""
    groups = list(_groups(outcomes))
    most = max((len(chosen) for _, chosen in groups), default=0)
    width, height = _LEFT + most * _STEP + 80, _TOP + len(groups) * _ROW + 10
    passed, plays = sum(o.passed for o in outcomes), sum(o.plays for o in outcomes)
    title = f"Structured streams: {passed} of {len(outcomes)} cases pass, in {plays} plays"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        f'  width="{width}" height="{height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{width}" height="{height}" rx="6"/>',
        f'<text class="title" x="16" y="28">{escape(title)}</text>',
    ]
    for at, (name, chosen) in enumerate(groups):
        lines += _drawn(name, chosen, _TOP + at * _ROW)
    return "\n".join([*lines, "</svg>", ""])


def _drawn(name: str, outcomes: Sequence[StreamOutcome], top: int) -> Iterable[str]:
    yield f'<text x="16" y="{top + 11}">{escape(_MEANT[name])}</text>'
    for at, outcome in enumerate(outcomes):
        kind = "passed" if outcome.passed else "failed"
        yield (
            f'<rect class="{kind}" x="{_LEFT + at * _STEP}" y="{top}" width="12" height="12" rx="2">'
            f"<title>{escape(outcome.case)}: {escape(outcome.proves)}</title></rect>"
        )
    passed = sum(o.passed for o in outcomes)
    edge = _LEFT + len(outcomes) * _STEP + 6
    yield f'<text class="count" x="{edge}" y="{top + 11}">{passed}/{len(outcomes)}</text>'
