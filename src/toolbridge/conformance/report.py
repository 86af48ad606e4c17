"""What a run came to, for a person and for a program."""

from collections.abc import Sequence

from toolbridge.conformance import upstreams
from toolbridge.conformance.runner import Outcome
from toolbridge.core.json import Json, JsonObject, dumps


def table(outcomes: Sequence[Outcome]) -> str:
    """Return passed / all by family, one column per pair of APIs."""
    pairs = list(dict.fromkeys(f"{o.client} → {o.upstream}" for o in outcomes))
    families = list(dict.fromkeys(o.family for o in outcomes))
    rows = [["family", *pairs]]
    rows += [[family, *(_score(outcomes, pair, family) for pair in pairs)] for family in families]
    rows.append(["all", *(_score(outcomes, pair, "") for pair in pairs)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(_cell(row[at], widths[at], at) for at in range(len(row))) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _cell(text: str, width: int, at: int) -> str:
    return text.rjust(width) if at else text.ljust(width)


def _score(outcomes: Sequence[Outcome], pair: str, family: str) -> str:
    chosen = [
        o
        for o in outcomes
        if f"{o.client} → {o.upstream}" == pair and (not family or o.family == family)
    ]
    return f"{sum(o.passed for o in chosen)}/{len(chosen)}" if chosen else "-"


def failures(outcomes: Sequence[Outcome]) -> str:
    """Return each case that failed, and why."""
    lines: list[str] = []
    for outcome in outcomes:
        if not outcome.passed:
            lines.append(f"{outcome.client} → {outcome.case}")
            lines += [f"    {fault}" for fault in outcome.faults]
    return "\n".join(lines)


def summary(outcomes: Sequence[Outcome]) -> str:
    passed = sum(o.passed for o in outcomes)
    return f"{passed} passed, {len(outcomes) - passed} failed"


def as_json(outcomes: Sequence[Outcome]) -> str:
    results: list[Json] = [_result(outcome) for outcome in outcomes]
    passed = sum(o.passed for o in outcomes)
    return dumps({"passed": passed, "failed": len(outcomes) - passed, "results": results})


def _result(outcome: Outcome) -> JsonObject:
    return {
        "case": outcome.case,
        "family": outcome.family,
        "client": outcome.client,
        "upstream": outcome.upstream,
        "passed": outcome.passed,
        "faults": [*outcome.faults],
        "seconds": outcome.took,
    }


_LITELLM = {
    "anthropic": "anthropic/{model}",
    "openai_chat": "openai/{model}",
    "openai_responses": "openai/responses/{model}",
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
    passthrough = false     # or leave it out, and add --relay here
    [map]
    {model} = "conform/{model}"

  LiteLLM's config.yaml
    model_list:
      - model_name: {model}
        litellm_params:
          model: {_LITELLM[api].format(model=model)}
          api_base: {base if api.startswith("openai") else url}
          api_key: any
"""
