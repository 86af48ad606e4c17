"""Show how a request was routed, changed and answered: `toolbridge explain last`.

ID is the `request-id` of a response, which the log has too, or `last`. The running gateway keeps the
last requests in memory. Its key is read from the configuration or TOOLBRIDGE_KEY.
"""

import argparse
import http.client
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from urllib.parse import quote

from toolbridge.cli import options, state
from toolbridge.cli.demo_trace import cut, plain, wants_colour
from toolbridge.config import Config, secret
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import Json, JsonObject, dumps, maybe_object

_WAIT = 60.0
_WIDTH = 110
_CODES = {"title": "1", "dim": "2", "removed": "31", "added": "32", "changed": "33", "bad": "31"}
Paint = Callable[[str, str], str]


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument(
        "--url", help="the address of the gateway, such as 127.0.0.1:3456 (the one that runs here)"
    )
    parser.add_argument("--json", action="store_true", help="print the explanation as JSON")
    parser.add_argument("id", metavar="ID", help="the id of a request, or `last`")


def run(args: argparse.Namespace) -> int:
    config = options.load(args)
    url = _url(config) if args.url is None else options.gateway_url(args.url)
    found = _fetch(url, args.id, secret(config.key))
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    colour = wants_colour(os.environ, is_terminal=sys.stdout.isatty())
    for line in lines_of(found, _painter(colour=colour)):
        print(line.rstrip())
    return 0


def _url(config: Config) -> str:
    running = state.find()
    if running is not None:
        return running.url
    host = "127.0.0.1" if config.host in {"0.0.0.0", "::"} else config.host  # noqa: S104  asked, not bound
    return f"http://[{host}]:{config.port}" if ":" in host else f"http://{host}:{config.port}"


def _fetch(url: str, id: str, key: str) -> JsonObject:
    headers = {"x-toolbridge-key": key} if key else {}
    request = urllib.request.Request(f"{url}/v1/explain/{quote(id, safe='')}")  # noqa: S310
    for name, value in headers.items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=_WAIT) as answer:  # noqa: S310  the user's gateway
            found = maybe_object(answer.read())
    except urllib.error.HTTPError as error:
        # Every response of a gateway has the id of its request, also a rejection.
        if not error.headers.get("request-id"):
            raise _not_a_gateway(url, f"it answered with status {error.code}") from None
        raise ToolbridgeError(_rejection(error.read(), error.code)) from None
    except http.client.HTTPException:
        raise _not_a_gateway(url, "it did not answer with HTTP") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or reason
        raise ToolbridgeError(
            f"no gateway answers at {url} ({why}); start it with `toolbridge serve`, or give its "
            "address with --url"
        ) from None
    if found is None or "id" not in found or "status" not in found:
        raise _not_a_gateway(url, "it did not answer with an explanation")
    return found


def _not_a_gateway(url: str, why: str) -> ToolbridgeError:
    return ToolbridgeError(
        f"the server at {url} is not a toolbridge gateway ({why}); start one with `toolbridge "
        "serve`, or give its address with --url"
    )


def _rejection(body: bytes, status: int) -> str:
    found = maybe_object(body) or {}
    error = found.get("error")
    text = error.get("message") if isinstance(error, dict) else error
    return str(text or f"the gateway answered with status {status}")


def _painter(*, colour: bool) -> Paint:
    if not colour:
        return lambda _, text: text
    return lambda style, text: f"\x1b[{_CODES[style]}m{text}\x1b[0m"


# ── the view ─────────────────────────────────────────────────────────────────


def lines_of(found: JsonObject, paint: Paint) -> Iterator[str]:
    """Yield the lines of an explanation for a terminal."""
    client, route = _object(found.get("client")), _object(found.get("route"))
    head = (
        f"{_text(found.get('id'))}  {_text(found.get('time'))}  status {_text(found.get('status'))}"
    )
    yield paint("title", head)
    if error := _object(found.get("error")):
        # A row of the ledger has no message.
        parts = filter(None, (_text(error.get("type")), _text(error.get("message"))))
        yield paint("bad", f"  {': '.join(parts)}")
    if process := found.get("process"):
        yield f"  answered by the process {_text(process)}"
    yield from _section("route", _route_lines(client, route), paint)
    if run := found.get("run"):
        calls = _call_lines(_objects(found.get("calls")))
        yield from _section(f"model calls of {_text(run)}", calls, paint)
        return
    if found.get("tool_mode"):
        mode = f"tool mode {_text(found.get('tool_mode'))}, dialect {_text(found.get('dialect'))}"
        yield from _section("tools", iter([mode]), paint)
    described = _objects(found.get("descriptions"))
    yield from _section("images described", _description_lines(described), paint)
    if "edits" in found:  # a row of the ledger has none
        edits = _objects(found.get("edits"))
        title = f"edits of the request: {len(edits) or 'none'}"
        yield from _section(title, _edit_lines(edits, paint), paint)
    if note := found.get("note"):
        yield f"  {_text(note)}"
    healings = _objects(found.get("healings"))
    yield from _section(f"healings: {len(healings)}", _healing_lines(healings, paint), paint)
    if tools := _objects(found.get("tools")):
        yield from _section("tools", _tool_lines(tools), paint)
    losses = _object(found.get("losses"))
    yield from _section("losses", _loss_lines(losses), paint)
    if "prefix" in found:
        prefix = _object(found.get("prefix"))
        yield from _section("prompt prefix", _prefix_lines(prefix, paint), paint)
    tokens, times = _object(found.get("tokens")), _object(found.get("times"))
    yield from _section("tokens and time", _number_lines(tokens, times), paint)


def _description_lines(described: list[JsonObject]) -> Iterator[str]:
    for one in described:
        tokens = f"{_text(one.get('input'))}+{_text(one.get('output'))} tokens"
        failed = f", {_text(one.get('error'))}" if one.get("error") else ""
        yield f"{_text(one.get('model'))}: status {_text(one.get('status'))}, {tokens}{failed}"


def _call_lines(calls: list[JsonObject]) -> Iterator[str]:
    for one in calls:
        state = "running" if one.get("running") else f"status {_text(one.get('status'))}"
        failed = f", {_text(one.get('error'))}" if one.get("error") else ""
        tokens = f"{_text(one.get('input'))}+{_text(one.get('output'))} tokens"
        took = f"{_text(one.get('total_ms'))} ms"
        yield f"{_text(one.get('id'))}  {_text(one.get('model'))}: {state}{failed}, {tokens}, {took}"


def _section(title: str, lines: Iterator[str], paint: Paint) -> Iterator[str]:
    found = list(lines)
    if found or title.endswith("none"):
        yield ""
        yield paint("title", title)
        yield from (f"  {line}" for line in found)


def _route_lines(client: JsonObject, route: JsonObject) -> Iterator[str]:
    asked = _text(route.get("asked")) or "(no model)"
    # A row of the ledger has no path.
    sent = " ".join(filter(None, (_text(client.get("api")), _text(client.get("path")))))
    yield f"{sent}, model {asked}" if sent else f"model {asked}"
    if not route.get("provider"):
        yield _text(route.get("why"))
        return
    how = "passthrough" if route.get("passthrough") else "translated"
    api = f" ({_text(route.get('api'))}, {how})" if route.get("api") else ""
    address = f"{_text(route.get('provider'))}/{_text(route.get('model'))}"
    yield f"→ {address}{api}: {_text(route.get('why'))}"
    for number, one in enumerate(_objects(route.get("attempts")), 1):
        model = f" of {_text(one.get('model'))}" if one.get("model") else ""
        at = f" at {_text(one.get('at_ms'))} ms" if "at_ms" in one else ""
        line = f"attempt {number}{model}{at}"
        if "bytes" in one:
            line += f", {_text(one.get('bytes'))} bytes: {_text(one.get('status') or 'no answer')}"
        yield line
        if one.get("problem"):
            yield f"  {_text(one.get('problem'))}; {_text(one.get('then'))}"


def _edit_lines(edits: list[JsonObject], paint: Paint) -> Iterator[str]:
    for edit in edits:
        kind = _text(edit.get("kind"))
        yield f"{paint(kind, kind.ljust(7))} {_text(edit.get('place'))}  {_text(edit.get('reason'))}"
        if edit.get("before") not in (None, "", []):
            yield paint("removed", f"  - {_value(edit.get('before'))}")
        if edit.get("after") not in (None, "", []):
            yield paint("added", f"  + {_value(edit.get('after'))}")


def _healing_lines(healings: list[JsonObject], paint: Paint) -> Iterator[str]:
    for one in healings:
        yield f"{_text(one.get('name'))} ({_text(one.get('call'))}), level {_text(one.get('level'))}"
        for step in _objects(one.get("steps")):
            yield f"  {_text(step.get('what'))} (level {_text(step.get('level'))})"
            yield paint("removed", f"    - {_value(step.get('before'))}")
            yield paint("added", f"    + {_value(step.get('after'))}")


def _tool_lines(tools: list[JsonObject]) -> Iterator[str]:
    for tool in tools:
        server = f" of {tool['server']}" if tool.get("server") else ""
        yield f"{tool['name']}{server} {_value(tool['arguments'])}"
        yield f"  {_text(tool['result'])} ({tool['ms']} ms)"


def _loss_lines(losses: JsonObject) -> Iterator[str]:
    for direction in ("request", "answer"):
        for loss in _objects(losses.get(direction)):
            minor = " (harmless)" if loss.get("minor") else ""
            yield f"{direction}: {_text(loss.get('what'))}: {_text(loss.get('why'))}{minor}"


def _prefix_lines(prefix: JsonObject, paint: Paint) -> Iterator[str]:
    if not prefix:
        yield "there is no earlier request of this conversation to compare with"
        return
    yield f"{_text(prefix.get('text'))} (compared with {_text(prefix.get('against'))})"
    if prefix.get("before"):
        yield paint("removed", f"- {_value(prefix.get('before'))}")
    if prefix.get("after"):
        yield paint("added", f"+ {_value(prefix.get('after'))}")


def _number_lines(tokens: JsonObject, times: JsonObject) -> Iterator[str]:
    shown = {name: value for name, value in (tokens | times).items() if value not in (None, 0, "")}
    yield ", ".join(f"{name} {_text(value)}" for name, value in shown.items()) or "none reported"


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: Json) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Json) -> str:
    return "" if value is None else plain(str(value))


def _value(value: Json) -> str:
    return cut(plain(value if isinstance(value, str) else dumps(value)), _WIDTH)
