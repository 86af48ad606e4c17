"""What a run came to, for a person and for a program."""

from collections.abc import Sequence

from toolbridge.conformance import upstreams
from toolbridge.conformance.runner import CaseOutcome
from toolbridge.core.json import Json, JsonObject, dumps


def table(outcomes: Sequence[CaseOutcome]) -> str:
    """Return passed / all by family; one pair of APIs reads best downwards, many across."""
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
    """Return each case that failed, and why."""
    lines: list[str] = []
    for outcome in outcomes:
        if not outcome.passed:
            lines.append(f"{outcome.pair}: {outcome.case.partition('/')[2]}")
            lines += [f"    {fault}" for fault in outcome.faults]
    return "\n".join(lines)


def summary(outcomes: Sequence[CaseOutcome]) -> str:
    passed = sum(o.passed for o in outcomes)
    return f"{passed} passed, {len(outcomes) - passed} failed"


def as_json(outcomes: Sequence[CaseOutcome]) -> str:
    results: list[Json] = [_result(outcome) for outcome in outcomes]
    passed = sum(o.passed for o in outcomes)
    return dumps({"passed": passed, "failed": len(outcomes) - passed, "results": results})


def _result(outcome: CaseOutcome) -> JsonObject:
    return {
        "case": outcome.case,
        "family": outcome.family,
        "client": outcome.client,
        "upstream": outcome.upstream,
        "passthrough": outcome.passthrough,
        "passed": outcome.passed,
        "faults": [*outcome.faults],
        "seconds": outcome.took,
    }


_LITELLM = {
    "anthropic": "anthropic/{model}",
    "openai_chat": "hosted_vllm/{model}",
    "openai_responses": "openai/{model}",
    "gemini": "gemini/{model}",
    "ollama": "ollama_chat/{model}",
}


def how_to_configure(api: str, url: str, model: str) -> str:
    """Return what a gateway's configuration needs, for two of them."""
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
