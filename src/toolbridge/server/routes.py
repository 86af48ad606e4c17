"""The route table: which function serves a path and method.

The API that a path belongs to also determines the envelope of its errors. Routes that few clients
use import their modules on first use, so that `toolbridge serve` starts quickly.
"""

import re
from collections.abc import Awaitable, Callable
from functools import cache

import msgspec

from toolbridge import codecs
from toolbridge.core.codec import Rejection
from toolbridge.core.errors import MalformedRequest, UnknownRoute
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.messages import Problem
from toolbridge.policy.key_scopes import allows_model
from toolbridge.routing.models import ListedModel
from toolbridge.server import embeddings, responses, ui
from toolbridge.server import models as shapes
from toolbridge.server.api_endpoint import ApiEndpoint
from toolbridge.server.app import App
from toolbridge.server.http import HttpExchange, IncomingRequest
from toolbridge.server.request_log import Entry
from toolbridge.wire.shapes import decode_request

STREAM = "/v1/stream"
WEBSOCKET = "/v1/stream/ws"
RUNS = "/v1/runs"
EXPLAIN = "/v1/explain"
REQUESTS = "/v1/requests"
Serve = Callable[[App, HttpExchange, Entry], Awaitable[None]]


def _converse(api: str) -> Serve:
    @cache
    def endpoint() -> ApiEndpoint:
        return ApiEndpoint(codecs.load(api))

    def serve(app: App, exchange: HttpExchange, entry: Entry) -> Awaitable[None]:
        return app.gateway.converse(exchange, entry, endpoint())

    return serve


# ── Anthropic ────────────────────────────────────────────────────────────────


async def count_tokens(app: App, exchange: HttpExchange, entry: Entry) -> None:
    counted = await app.gateway.count_tokens(exchange, entry, ApiEndpoint(codecs.load("anthropic")))
    await exchange.reply(200, dump_bytes({"input_tokens": counted}))


# ── OpenAI ───────────────────────────────────────────────────────────────────


async def completions(app: App, exchange: HttpExchange, entry: Entry) -> None:
    from toolbridge.codecs.openai_chat import COMPLETIONS

    await app.gateway.converse(exchange, entry, ApiEndpoint(COMPLETIONS))


# ── Gemini ───────────────────────────────────────────────────────────────────


async def gemini(app: App, exchange: HttpExchange, entry: Entry) -> None:
    """Serve `/v1beta/models/{model}:{method}`; a model name may contain colons and slashes."""
    path = re.sub(r"^/v1(beta\d?|alpha)?/models/", "", exchange.path.rstrip("/"))
    model, _, method = path.rpartition(":")
    codec = codecs.load("gemini")
    if method == "countTokens":
        counted = await app.gateway.count_tokens(exchange, entry, ApiEndpoint(codec, model=model))
        await exchange.reply(200, dump_bytes({"totalTokens": counted}))
        return
    if method in {"embedContent", "batchEmbedContents"}:
        batch = method == "batchEmbedContents"
        await embeddings.gemini(app, exchange, entry, model, batch=batch)
        return
    if method not in {"generateContent", "streamGenerateContent"}:
        raise UnknownRoute(
            f"there is no method {method!r}; use generateContent, streamGenerateContent, "
            "countTokens, embedContent or batchEmbedContents"
        )
    stream = method == "streamGenerateContent"
    # Gemini API: without `alt=sse` the stream is one JSON array.
    alt: JsonObject = {"alt": "json"} if stream and exchange.query("alt") != "sse" else {}
    ask = ApiEndpoint(codec, model=model, stream=stream, extra=alt)
    await app.gateway.converse(exchange, entry, ask)


# ── Ollama ───────────────────────────────────────────────────────────────────


async def generate(app: App, exchange: HttpExchange, entry: Entry) -> None:
    from toolbridge.codecs.ollama.generate import decode_generate

    ask = ApiEndpoint(codecs.load("ollama"), decode=decode_generate)
    await app.gateway.converse(exchange, entry, ask)


async def tags(app: App, exchange: HttpExchange, entry: Entry) -> None:
    entry.note(surface="ollama")
    listed = await _listed(app, exchange)
    await exchange.reply(200, dump_bytes(shapes.ollama_tags(listed, app.started)))


async def show(app: App, exchange: HttpExchange, entry: Entry) -> None:
    entry.note(surface="ollama")
    name, _ = await _asked_model(app, exchange)
    route = await app.gateway.model_routes.route(name)
    app.gateway.permit_model(exchange, route.address)
    await exchange.reply(200, dump_bytes(shapes.ollama_show(name, route, app.started)))


class _AskedModel(msgspec.Struct):
    """A request of Ollama's API about a model."""

    model: str | None = None
    name: str | None = None
    """The older name of the field."""
    stream: bool | None = None


_asked_models = msgspec.json.Decoder(_AskedModel)


async def _asked_model(app: App, exchange: HttpExchange) -> tuple[str, bool]:
    """Return the model that a request names, and whether the answer is a stream."""
    asked = decode_request(await exchange.body(app.config.max_body), _asked_models)
    name = asked.model or asked.name
    if not name:
        raise MalformedRequest("field required", where="model")
    return name, asked.stream is not False


async def web_search(app: App, exchange: HttpExchange, entry: Entry) -> None:
    from toolbridge.server import ollama_web

    await ollama_web.web_search(app, exchange, entry)


async def web_fetch(app: App, exchange: HttpExchange, entry: Entry) -> None:
    from toolbridge.server import ollama_web

    await ollama_web.web_fetch(app, exchange, entry)


async def pull(app: App, exchange: HttpExchange, entry: Entry) -> None:
    """Report an available model as pulled; `codex --oss` and others pull before they chat."""
    entry.note(surface="ollama")
    name, streams = await _asked_model(app, exchange)
    route = await app.gateway.model_routes.route(name)
    app.gateway.permit_model(exchange, route.address)
    if not streams:
        await exchange.reply(200, dump_bytes({"status": "success"}))
        return
    lines = [dump_bytes({"status": status}) for status in ("pulling manifest", "success")]
    body = b"".join(line + b"\n" for line in lines)
    await exchange.reply(200, body, {"content-type": "application/x-ndjson"})


async def version(_: App, exchange: HttpExchange, entry: Entry) -> None:
    entry.note(surface="ollama")
    await exchange.reply(200, dump_bytes({"version": shapes.OLLAMA_VERSION}))


async def running(_: App, exchange: HttpExchange, entry: Entry) -> None:
    entry.note(surface="ollama")
    await exchange.reply(200, dump_bytes({"models": []}))


# ── structured streams ───────────────────────────────────────────────────────


def _streaming(name: str) -> Serve:
    async def serve(app: App, exchange: HttpExchange, entry: Entry) -> None:
        from toolbridge.server import stream

        await getattr(stream, name)(app, exchange, entry)

    return serve


def _past(name: str) -> Serve:
    async def serve(app: App, exchange: HttpExchange, entry: Entry) -> None:
        from toolbridge.server import runs

        await getattr(runs, name)(app, exchange, entry)

    return serve


def _page_data(name: str) -> Serve:
    async def serve(app: App, exchange: HttpExchange, entry: Entry) -> None:
        from toolbridge.server.page_routes import PAGE_DATA

        await PAGE_DATA[name](app, exchange, entry)

    return serve


async def explain(app: App, exchange: HttpExchange, entry: Entry) -> None:
    """`GET /v1/explain/{id}`: how a request was routed and changed."""
    from toolbridge.server import explanations

    await explanations.serve(app, exchange, entry)


PAGES = frozenset(ui.FILES)
"""The paths of the files of the timeline page."""


def is_stream(path: str) -> bool:
    return path in {STREAM, RUNS} or path.startswith((f"{STREAM}/", f"{RUNS}/"))


def reject_stream(problem: Problem) -> Rejection:
    from toolbridge.server import stream

    return stream.reject(problem)


# ── shared ───────────────────────────────────────────────────────────────────


async def models(app: App, exchange: HttpExchange, _: Entry) -> None:
    shape = "gemini" if exchange.path != "/v1/models" else shapes.asked_shape(exchange)
    listed = await _listed(app, exchange)
    if shape == "anthropic" and shapes.is_claude_code(exchange):
        found = shapes.list_for_claude_code(listed, app.started)
    else:
        found = shapes.list_models(listed, shape, app.started)
    await exchange.reply(200, dump_bytes(found))


async def _listed(app: App, exchange: HttpExchange) -> list[ListedModel]:
    """Return the models that the caller's key may use."""
    listed = await app.gateway.model_routes.listed()
    if (key := exchange.access) is None:
        return listed
    return [m for m in listed if allows_model(key.scopes, m.address, app.config.map)]


async def one_model(app: App, exchange: HttpExchange, _: Entry) -> None:
    root, name = exchange.path.split("/models/", 1)
    shape = shapes.asked_shape(exchange) if root == "/v1" else "gemini"
    route = await app.gateway.model_routes.route(name)
    app.gateway.permit_model(exchange, route.address)
    exchange.extra_headers["x-toolbridge-model"] = route.address
    found = shapes.one_model(shapes.listed_route(name, route), shape, app.started)
    await exchange.reply(200, dump_bytes(found))


async def ready(app: App, exchange: HttpExchange, _: Entry) -> None:
    """Answer 503 while the gateway shuts down, so that a load balancer sends requests elsewhere."""
    phase = app.lifecycle.phase
    shown: dict[str, Json] = {
        "status": phase,
        "model": app.gateway.model_routes.default,
        "store": _store(app),
    }
    await exchange.reply(200 if phase == "ready" else 503, dump_bytes(shown))


async def health(app: App, exchange: HttpExchange, _: Entry) -> None:
    shown: dict[str, Json] = {
        "status": "ok",
        "model": app.gateway.model_routes.default,
        "in_flight": len(app.in_flight),
        "store": _store(app),
    }
    if passed_over := _passed_over(app):
        shown["passed_over"] = passed_over
    await exchange.reply(200, dump_bytes(shown))


def _passed_over(app: App) -> dict[str, Json]:
    """Return the providers that chains pass over, with the reason."""
    reports = app.gateway.router.health.report()
    return {name: report.resting for name, report in reports.items() if report.resting}


def _store(app: App) -> str:
    """Return `disk` or `server`, or `memory` with the reason."""
    trouble = app.gateway.store.trouble
    used = "server" if app.gateway.engines.is_shared else "disk"
    return f"memory ({trouble})" if trouble else used


async def hello(app: App, exchange: HttpExchange, _: Entry) -> None:
    shown = {"name": "toolbridge", "model": app.gateway.model_routes.default, "health": "/health"}
    await exchange.reply(200, dump_bytes(shown))


async def metrics(app: App, exchange: HttpExchange, _: Entry) -> None:
    if app.ledger is not None and app.ledger.dropped:
        app.metrics.put("toolbridge_ledger_dropped_total", app.ledger.dropped)
    text = app.metrics.text() + app.metrics.health_text(app.gateway.router.health.report())
    await exchange.reply(200, text.encode(), {"content-type": "text/plain; version=0.0.4"})


PATHS: dict[str, dict[str, Serve]] = {
    "/": {"GET": hello},
    "/api/hello": {"GET": hello},
    "/health": {"GET": health},
    "/health/liveness": {"GET": health},
    "/health/liveliness": {"GET": health},
    "/health/readiness": {"GET": ready},
    "/healthz": {"GET": health},
    "/livez": {"GET": health},
    "/readyz": {"GET": ready},
    "/metrics": {"GET": metrics},
    "/v1/messages": {"POST": _converse("anthropic")},
    "/v1/messages/count_tokens": {"POST": count_tokens},
    "/v1/chat/completions": {"POST": _converse("openai_chat")},
    "/v1/completions": {"POST": completions},
    "/v1/embeddings": {"POST": embeddings.openai},
    "/v1/responses": {"POST": _converse("openai_responses")},
    "/v1/responses/input_tokens": {"POST": responses.input_tokens},
    "/v1/responses/compact": {"POST": responses.compact},
    "/api/chat": {"POST": _converse("ollama")},
    "/api/generate": {"POST": generate},
    "/api/embed": {"POST": embeddings.ollama},
    "/api/embeddings": {"POST": embeddings.ollama_legacy},
    "/api/pull": {"POST": pull},
    "/api/web_search": {"POST": web_search},
    "/api/experimental/web_search": {"POST": web_search},
    "/api/web_fetch": {"POST": web_fetch},
    "/api/experimental/web_fetch": {"POST": web_fetch},
    "/api/tags": {"GET": tags},
    "/api/show": {"POST": show},
    "/api/version": {"GET": version},
    "/api/ps": {"GET": running},
    STREAM: {"POST": _streaming("start")},
    WEBSOCKET: {"GET": _streaming("needs_upgrade")},
    RUNS: {"GET": _past("listed")},
    REQUESTS: {"GET": _page_data("requests")},
    f"{REQUESTS}/stream": {"GET": _page_data("feed")},
    "/v1/usage": {"GET": _page_data("usage")},
    "/v1/providers": {"GET": _page_data("providers")},
    "/v1/model_cards": {"GET": _page_data("cards")},
    **{path: {"GET": ui.page} for path in ui.FILES},
    "/v1/models": {"GET": models},
    "/v1beta/models": {"GET": models},
}
_PATTERNS: list[tuple[re.Pattern[str], dict[str, Serve]]] = [
    (
        re.compile(rf"{STREAM}/run_[0-9a-f]+"),
        {"GET": _streaming("follow"), "DELETE": _streaming("abort")},
    ),
    (re.compile(rf"{STREAM}/run_[0-9a-f]+/results"), {"POST": _streaming("answer_tool")}),
    (re.compile(rf"{RUNS}/run_[0-9a-f]+"), {"GET": _past("one")}),
    (re.compile(rf"{EXPLAIN}/[^/]+"), {"GET": explain}),
    (re.compile(rf"{REQUESTS}/[^/]+"), {"GET": _page_data("request")}),
    (re.compile(r"/v1(beta\d?|alpha)?/models/.+:\w*[a-z][A-Z]\w*"), {"POST": gemini}),
    (re.compile(r"/v1(beta)?/models/.+"), {"GET": one_model, "POST": gemini}),
    (re.compile(r"/v1/responses/[^/]+/input_items"), {"GET": responses.input_items}),
    (re.compile(r"/v1/responses/[^/]+/cancel"), {"POST": responses.cancel}),
    (
        re.compile(r"/v1/responses/[^/]+"),
        {"GET": responses.stored_response, "DELETE": responses.delete_response},
    ),
]
_ASKS = re.compile(
    r"^/v1/(messages|chat/completions|completions|responses|stream)$|^/api/(chat|generate)$"
    r"|enerateContent$"
)
_APIS = [
    (
        re.compile(
            r"/v1/(chat|completions|embeddings|audio|images|moderations|assistants"
            r"|threads|fine_tuning|vector_stores|uploads|realtime)(/|$)"
        ),
        "openai_chat",
    ),
    (re.compile(r"/v1/(responses|conversations)(/|$)"), "openai_responses"),
    (re.compile(r"/v1(beta|alpha)|/v1/models/.+:"), "gemini"),
    (re.compile(r"/api/(?!hello)"), "ollama"),
    (re.compile(r"/v1/messages(/|$)"), "anthropic"),
]
# Several APIs have these paths; the headers select the API. Without any it is OpenAI's.
_SHARED = re.compile(r"/v1/(models|files|batches)(/|$)")
_OFFERS = {
    "anthropic": "use POST /v1/messages",
    "openai_chat": "use POST /v1/chat/completions, /v1/completions or /v1/embeddings, "
    "or GET /v1/models",
    "openai_responses": "use POST /v1/responses",
    "gemini": "use POST /v1beta/models/{model}:generateContent, "
    ":streamGenerateContent, :countTokens or :embedContent",
    "ollama": "use POST /api/chat, /api/generate, /api/embed, /api/web_search, /api/web_fetch or "
    "/api/show, or GET /api/tags",
}


def find(path: str) -> dict[str, Serve] | None:
    """Return the functions that serve `path`, by method; None for an unknown path."""
    found = PATHS.get(path)
    return found or next((m for p, m in _PATTERNS if p.fullmatch(path)), None)


def asks_model(exchange: IncomingRequest) -> bool:
    """Return whether the request asks a model, so that it belongs into the ledger."""
    return exchange.method == "POST" and _ASKS.search(exchange.path) is not None


def api_of(exchange: IncomingRequest) -> str:
    """Return the API whose error envelope the caller expects: by its path, then its headers."""
    found = next((api for pattern, api in _APIS if pattern.match(exchange.path)), "")
    if found:
        return found
    asked = shapes.asked_shape(exchange)
    shared = _SHARED.match(exchange.path) is not None
    if asked == "openai" and not shared and not exchange.header("authorization"):
        return "anthropic"
    return "openai_chat" if asked == "openai" else asked


def offer_of(exchange: HttpExchange) -> str:
    """Return the paths of the caller's API, for the error about an unknown path."""
    return _OFFERS[api_of(exchange)]
