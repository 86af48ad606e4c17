"""Reports of conformance runs, for people and for programs: a table, failures, JSON and SVG.

Translations and structured streams share these reports.
"""

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

import msgspec

from toolbridge.conformance import upstreams
from toolbridge.conformance.runner import CaseOutcome
from toolbridge.core.json import Json, JsonObject, dumps


def table(outcomes: Sequence[CaseOutcome]) -> str:
    """Return passed / all by family: families as rows for one pair of APIs, else as columns."""
    pairs = list(dict.fromkeys(o.pair for o in outcomes))
    families = list(dict.fromkeys(o.family for o in outcomes))
    rows = [["", *families, "all"]]
    for pair in pairs:
        chosen = [o for o in outcomes if o.pair == pair]
        scores = [_score([o for o in chosen if o.family == family]) for family in families]
        rows.append([pair, *scores, _score(chosen)])
    if len(pairs) == 1:
        rows = [list(row) for row in zip(*rows, strict=True)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(row, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])


def _score(outcomes: Sequence[CaseOutcome]) -> str:
    return f"{sum(o.passed for o in outcomes)}/{len(outcomes)}" if outcomes else "-"


def failures(outcomes: Sequence[CaseOutcome]) -> str:
    """Return each case that failed, its reason and its faults."""
    lines: list[str] = []
    for outcome in outcomes:
        if not outcome.passed:
            name = outcome.case.removeprefix(f"{outcome.upstream}/")
            lines.append(": ".join(filter(None, (outcome.pair, name, outcome.why))))
            lines += [f"    {fault}" for fault in outcome.faults]
    return "\n".join(lines)


def summary(outcomes: Sequence[CaseOutcome]) -> str:
    passed = sum(o.passed for o in outcomes)
    return f"{passed} passed, {len(outcomes) - passed} failed"


def as_text(outcomes: Sequence[CaseOutcome]) -> str:
    """Return the table, the failures and the summary, for a terminal."""
    parts = (table(outcomes), failures(outcomes), summary(outcomes))
    return "\n\n".join(part for part in parts if part)


def as_json(outcomes: Sequence[CaseOutcome]) -> str:
    """Return the results as JSON, the same text for the same outcomes."""
    passed = sum(o.passed for o in outcomes)
    families: JsonObject = {}
    for family, chosen in _families(outcomes):
        good = sum(o.passed for o in chosen)
        families[family] = {"passed": good, "failed": len(chosen) - good}
    results: list[Json] = [_result(outcome) for outcome in outcomes]
    found: JsonObject = {
        "passed": passed,
        "failed": len(outcomes) - passed,
        "plays": sum(o.plays for o in outcomes),
        "families": families,
        "results": results,
    }
    return msgspec.json.format(dumps(found), indent=1)


def _families(outcomes: Sequence[CaseOutcome]) -> Iterator[tuple[str, list[CaseOutcome]]]:
    for family in dict.fromkeys(o.family for o in outcomes):
        yield family, [o for o in outcomes if o.family == family]


def _result(outcome: CaseOutcome) -> JsonObject:
    found: JsonObject = {"case": outcome.case, "family": outcome.family, "client": outcome.client}
    if outcome.upstream:
        found |= {"upstream": outcome.upstream, "passthrough": outcome.passthrough}
    found |= {"why": outcome.why, "plays": outcome.plays, "passed": outcome.passed}
    found["faults"] = [*outcome.faults]
    # A stream case has no time of its own: its JSON is kept in the repository and must not vary.
    return {**found, "seconds": outcome.took} if outcome.took else found


_LEFT, _TOP, _STEP, _ROW = 224, 52, 16, 26
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 } .count { fill: #59636e }
.back { fill: #ffffff } .passed { fill: #2da44e } .failed { fill: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .count { fill: #9198a1 } .back { fill: #0d1117 }
.passed { fill: #3fb950 } .failed { fill: #f85149 } }"""


def as_svg(outcomes: Sequence[CaseOutcome], title: str, labels: Mapping[str, str]) -> str:
    """Return a picture: one row per family, one square per case, with the case as its tooltip.

    `labels` gives the text beside each row, by family.
    """
    groups = list(_families(outcomes))
    most = max((len(chosen) for _, chosen in groups), default=0)
    width, height = _LEFT + most * _STEP + 80, _TOP + len(groups) * _ROW + 10
    passed, plays = sum(o.passed for o in outcomes), sum(o.plays for o in outcomes)
    title = f"{title}: {passed} of {len(outcomes)} cases pass, in {plays} plays"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        f'  width="{width}" height="{height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{width}" height="{height}" rx="6"/>',
        f'<text class="title" x="16" y="28">{escape(title)}</text>',
    ]
    for at, (name, chosen) in enumerate(groups):
        lines += _drawn(labels.get(name, name), chosen, _TOP + at * _ROW)
    return "\n".join([*lines, "</svg>", ""])


def _drawn(label: str, outcomes: Sequence[CaseOutcome], top: int) -> Iterator[str]:
    yield f'<text x="16" y="{top + 11}">{escape(label)}</text>'
    for at, outcome in enumerate(outcomes):
        kind = "passed" if outcome.passed else "failed"
        name = outcome.case.rpartition("/")[2]
        yield (
            f'<rect class="{kind}" x="{_LEFT + at * _STEP}" y="{top}" width="12" height="12" rx="2">'
            f"<title>{escape(name)}: {escape(outcome.why)}</title></rect>"
        )
    passed = sum(o.passed for o in outcomes)
    edge = _LEFT + len(outcomes) * _STEP + 6
    yield f'<text class="count" x="{edge}" y="{top + 11}">{passed}/{len(outcomes)}</text>'


_LITELLM = {
    "anthropic": "anthropic/{model}",
    "openai_chat": "hosted_vllm/{model}",
    "openai_responses": "openai/{model}",
    "gemini": "gemini/{model}",
    "ollama": "ollama_chat/{model}",
}


def how_to_configure(api: str, url: str, model: str) -> str:
    """Return the lines that toolbridge and LiteLLM need to use the scripted upstream."""
    base = url + upstreams.load(api).base
    return f"""\
The gateway must ask {url} (it speaks {api}) for the model {model}.

  toolbridge.toml
    [providers.conform]
    api = "{api}"
    url = "{base if api != "gemini" else url}"
    [map]
    {model} = "conform/{model}"

  LiteLLM's config.yaml
    model_list:
      - model_name: {model}
        litellm_params:
          model: {_LITELLM[api].format(model=model)}
          api_base: {base if api.startswith("openai") else url}
          api_key: any
    router_settings:
      disable_cooldowns: true
"""
