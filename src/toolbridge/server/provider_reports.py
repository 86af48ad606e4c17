"""`GET /v1/providers`: the state of the providers, computed from what the gateway keeps already.

The breakers report their state, the recent rows give latency and errors, and the kept requests have
the failures of single attempts, also of those that another model of a chain has answered.
"""

import time
from collections.abc import Sequence
from statistics import quantiles
from typing import TYPE_CHECKING

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.masking import without_quotes
from toolbridge.routing.provider_health import HealthReport
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry
from toolbridge.server.request_rows import RowView
from toolbridge.store.ledger import LedgerRow
from toolbridge.upstream.hosts import hostname

if TYPE_CHECKING:
    from toolbridge.server.app import App

_FAILURES = 5
"""Failures of one provider that are shown."""
_LONGEST = 300


async def listed(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """Answer with the providers that are configured, in use, or were used."""
    entry.note(surface="page")
    view = RowView(app.gateway.redactor, exchange.access)
    rows = [row for row in app.recent_requests.all() if view.sees(row)]
    health = app.gateway.router.health.report()
    reports: list[Json] = [
        _report(app, name, health.get(name), [row for row in rows if row.provider == name])
        | {"failures": _failures(app, name, texts=exchange.access is None)}
        for name in _names(app, {*health, *(row.provider for row in rows if row.provider)})
    ]
    shown = {"providers": reports, "now": time.time()}
    await exchange.reply(200, app.gateway.redactor.json(shown))


def _names(app: "App", used: set[str]) -> list[str]:
    """Return the default's provider, then the configured ones, then the others that were used."""
    default = app.gateway.model_routes.default.partition("/")[0]
    names = [default, *app.config.providers, *sorted(used)]
    return [name for name in dict.fromkeys(names) if name]


def _report(
    app: "App", name: str, health: HealthReport | None, rows: Sequence[LedgerRow]
) -> JsonObject:
    config = app.gateway.model_routes.provider_configs.get(name)
    # Failures are quick, and would make the total time shorter than that of the first token.
    answered = [row for row in rows if row.first_token_ms is not None]
    first = [row.first_token_ms for row in answered if row.first_token_ms is not None]
    return {
        "name": name,
        "api": config.api if config else "",
        "host": hostname(config.url) if config and config.url else "",
        "breaker": health.breaker if health else "closed",
        "failures_in_a_row": health.failures if health else 0,
        "resting": health.resting if health else "",
        "in_flight": sum(
            entry.fields.get("gen_ai.provider.name") == name for entry in app.in_flight.values()
        ),
        "waiting": health.waiting if health else 0,
        "requests": len(rows),
        "errors": sum(row.status >= 400 or bool(row.error) for row in rows),
        "first_token_ms": _spread(first),
        "total_ms": _spread([row.total_ms for row in answered]),
        "recent_ms": [round(row.total_ms) for row in rows[-40:]],
    }


def _spread(values: Sequence[float]) -> Json:
    """Return the median and the 95th percentile; null without values."""
    if not values:
        return None
    cuts = quantiles(values, n=20, method="inclusive") if len(values) > 1 else [*values] * 19
    return {"p50": round(cuts[9], 1), "p95": round(cuts[18], 1)}


def _failures(app: "App", name: str, *, texts: bool) -> list[Json]:
    """Return the last failures of a provider, without what their texts quote from a request.

    A quote of another form may remain, so that texts are shown only with `texts`.
    """
    found: list[Json] = []
    for kept in app.gateway.kept_requests.newest():
        for attempt in reversed(kept.trace.attempts):
            if attempt.problem is None or attempt.route.provider != name:
                continue
            problem = attempt.problem
            text = without_quotes(problem.text[:_LONGEST], kept.body.decode("utf-8", "replace"))
            found.append(
                {
                    "at": kept.entry.at + attempt.at,
                    "kind": problem.kind,
                    "status": problem.status,
                    "model": attempt.route.target.model,
                    "text": text if texts else "",
                    "request": kept.id if texts else "",
                }
            )
            if len(found) == _FAILURES:
                return found
    return found
