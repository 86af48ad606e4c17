"""Settings of the tools that the gateway runs itself: the table `[server_tools]`.

`web_search`, `web_fetch`, `tool_search`, `code_execution` and the MCP servers of `mcp` each have a
table. `tools.web` and `tools.mcp` use them; `docs/reference/settings.md` describes them. The checks
that a type cannot express are in `fault_of`, which the configuration calls for every table.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from toolbridge.core.close_names import did_you_mean
from toolbridge.core.declared_limits import is_domain
from toolbridge.core.json import JsonObject
from toolbridge.environment import key_variable, secret
from toolbridge.server_settings import Port, Seconds

SearchEngineName: TypeAlias = Literal[
    "auto", "off", "searxng", "brave", "tavily", "exa", "serper", "jina", "ollama", "duckduckgo",
    "mcp", "command", "model",
]  # fmt: skip

SEARCH_VARIABLES: dict[str, tuple[str, ...]] = {
    "searxng": ("SEARXNG_URL", "SEARXNG_API_BASE"),
    "brave": ("BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"),
    "tavily": ("TAVILY_API_KEY",),
    "exa": ("EXA_API_KEY",),
    "serper": ("SERPER_API_KEY",),
    "jina": ("JINA_API_KEY",),
    "ollama": ("OLLAMA_API_KEY",),
}
"""Search engine → the variables that select it, in the order of the automatic choice."""

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


class WebSearchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[server_tools.web_search]`: the search engine, and what is sent to it."""

    backend: SearchEngineName = "auto"
    """The search engine; `auto` takes the first whose variable is set, and none without one."""
    url: str = ""
    """The address of SearXNG, or of another server with the API of the engine."""
    key: str = ""
    """The key, or its variable (`$NAME`); unset for the engine's usual variable."""
    count: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5
    timeout: Seconds = 8.0
    country: str = ""
    """The country of the results, two letters, where the request names none."""
    language: str = ""
    snippet: Annotated[int, msgspec.Meta(ge=50, le=8000)] = 500
    """The most characters of the text of one result."""
    allow: tuple[str, ...] = ()
    """Domains that results may come from; empty for all."""
    block: tuple[str, ...] = ()
    parameters: JsonObject = msgspec.field(default_factory=dict)
    """Further parameters of the engine's API, such as SearXNG's `engines`."""
    server: str = ""
    """For `mcp`: the server of `[server_tools.mcp]`."""
    tool: str = ""
    """For `mcp`: the tool that searches."""
    argument: str = "query"
    """For `mcp`: the argument of the tool that takes the query."""
    command: tuple[str, ...] = ()
    """For `command`: the program and its arguments; it reads the query as JSON and prints hits."""
    model: str = ""
    """For `model`: a model whose provider searches."""
    summarize: bool = False
    """Whether the model summarizes the results of an agent's search request; otherwise the agent gets
    the list of results at once, and the model is not asked."""
    cached: bool = True
    """Whether to search for requests that allow no live access to pages, as Codex's do by default."""


class WebFetchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[server_tools.web_fetch]`: which addresses are fetched, and the limits."""

    enabled: bool = True
    timeout: Seconds = 10.0
    connect_timeout: Seconds = 3.0
    max_bytes: Annotated[int, msgspec.Meta(ge=1024, le=32 * 1024 * 1024)] = 2 * 1024 * 1024
    """The most bytes of a page after decompression; the rest is not read."""
    max_tokens: Annotated[int, msgspec.Meta(ge=100)] = 25_000
    """The most tokens of a page that reach the model, estimated."""
    redirects: Annotated[int, msgspec.Meta(ge=0, le=20)] = 5
    ports: tuple[Port, ...] = (80, 443, 8080, 8443)
    allow: tuple[str, ...] = ()
    """Domains that may be fetched; empty for all public ones."""
    block: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    """Private hosts that may be fetched: a name, an address, a network (`10.1.0.0/16`), with a port
    or without."""
    proxy: str = ""
    """An HTTP proxy for all fetches. It resolves names itself, so it must refuse private addresses."""
    reader: Literal["auto", "builtin", "trafilatura"] = "auto"
    """Converts HTML to text; `auto` is trafilatura if it is installed."""


class ToolSearchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[server_tools.tool_search]`: the search for deferred tools; it needs no network."""

    enabled: bool = True
    count: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5


class CodeExecutionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[server_tools.code_execution]`: off unless an MCP server of the user runs the code."""

    server: str = ""
    """The server of `[server_tools.mcp]` that runs code; empty for none."""
    tool: str = ""
    argument: str = "code"


class McpServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[server_tools.mcp.LABEL]`: a server that is a command (stdio), or one at a URL (HTTP)."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    """Variables of the command beside `PATH`, `HOME` and the locale; a value may be `$NAME`."""
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    """Header fields of every request; a value may be `$NAME`."""
    authorization: str = ""
    """The bearer token, or its variable; unset for the login of `toolbridge mcp login`."""
    client_id: str = ""
    """The client at the authorization server, where that does not register clients by itself."""
    client_secret: str = ""
    scope: str = ""
    """The scopes of a login, separated by spaces; unset for those that the server names."""
    allow_tools: tuple[str, ...] = ()
    """Names or patterns (`read_*`) of the tools that are used; empty for all."""
    deny_tools: tuple[str, ...] = ()
    approval: Literal["never", "writes", "always"] = "never"
    """Which calls a client must approve; clients whose API has no approvals do not get these tools."""
    offer: bool = False
    """Whether the tools are offered in every request, also if the client does not name the server."""
    offer_models: tuple[str, ...] = ()
    """Addresses or patterns (`ollama/*`) of the models for which `offer` holds; empty for all."""
    offer_keys: tuple[str, ...] = ()
    """Names or patterns of the created keys for which `offer` holds; empty for every caller."""
    start_timeout: Seconds = 30.0
    """Seconds for the start, the handshake and the list of tools."""
    timeout: Seconds = 60.0
    """Seconds for one call."""
    max_tokens: Annotated[int, msgspec.Meta(ge=100)] = 25_000
    """The most tokens of a result's text, estimated."""
    max_image_bytes: Annotated[int, msgspec.Meta(ge=0)] = 5 * 1024 * 1024
    """The most bytes of the images of a result; further images become a note."""
    enabled: bool = True


class ServerToolSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[server_tools]`: the tools that the gateway runs for models that have none."""

    web_search: WebSearchSettings = WebSearchSettings()
    web_fetch: WebFetchSettings = WebFetchSettings()
    tool_search: ToolSearchSettings = ToolSearchSettings()
    code_execution: CodeExecutionSettings = CodeExecutionSettings()
    mcp: dict[str, McpServerSettings] = msgspec.field(default_factory=dict)
    mcp_urls: tuple[str, ...] = ()
    """MCP servers that a request may name by URL; none by default."""
    max_uses: Annotated[int, msgspec.Meta(ge=1, le=100)] = 8
    """The most calls of one tool in an answer, where the request does not allow fewer."""
    max_passes: Annotated[int, msgspec.Meta(ge=2, le=100)] = 8
    """The most requests to the model for one answer."""
    timeout: Seconds = 120.0
    """Seconds from the first call of an answer; afterwards the model answers without the tools."""


SERVER_TOOL_TABLES: dict[str, type[msgspec.Struct]] = {
    "server_tools": ServerToolSettings,
    "web_search": WebSearchSettings,
    "web_fetch": WebFetchSettings,
    "tool_search": ToolSearchSettings,
    "code_execution": CodeExecutionSettings,
    "mcp": McpServerSettings,
}
"""The tables by their names, for error texts."""


def chosen_engine(settings: WebSearchSettings, env: Mapping[str, str]) -> str:
    """Return the search engine to use; empty if none is configured and no variable selects one."""
    if settings.backend == "off":
        return ""
    if settings.backend != "auto":
        return settings.backend
    return next(
        (name for name, names in SEARCH_VARIABLES.items() if any(env.get(v) for v in names)), ""
    )


def server_tool_secrets(settings: ServerToolSettings, env: Mapping[str, str]) -> list[str]:
    """Return every secret of these settings, for the redactor."""
    engine = chosen_engine(settings.web_search, env)
    variables = SEARCH_VARIABLES.get(engine, ()) if engine != "searxng" else ()
    found = [secret(settings.web_search.key, env), *(env.get(name, "") for name in variables)]
    for server in settings.mcp.values():
        given = (
            server.authorization, server.client_secret, *server.headers.values(), *server.env.values()
        )  # fmt: skip
        found += [secret(value, env) for value in given if key_variable(value)]
        found.append(secret(server.authorization, env).removeprefix("Bearer "))
    return [value for value in found if value]


def fault_of(settings: ServerToolSettings) -> tuple[str, str]:
    """Return the setting that is wrong and why, with the next step; two empty texts if none is."""
    for where, why in (
        *_search_faults(settings),
        *_fetch_faults(settings.web_fetch),
        *_code_faults(settings),
        *(fault for name in settings.mcp for fault in _mcp_faults(name, settings.mcp[name])),
        *(
            (("mcp_urls", f"{url!r} must be an http:// or https:// address"))
            for url in settings.mcp_urls
            if url != "*" and not _is_url(url)
        ),
    ):
        return f"server_tools.{where}", why
    return "", ""


def _search_faults(settings: ServerToolSettings) -> list[tuple[str, str]]:
    search = settings.web_search
    found = [("backend", why) for why in _missing(search, settings.mcp)]
    if search.url and not _is_url(search.url):
        found.append(("url", f"{search.url!r} must be an http:// or https:// address"))
    if search.allow and search.block:
        found.append(("block", "`allow` and `block` exclude each other; remove one of them"))
    if search.country and not re.fullmatch(r"[A-Za-z]{2}", search.country):
        found.append(("country", f"{search.country!r} must have two letters, such as DE"))
    found += [
        (name, f"{domain!r} must be a domain without a scheme, such as example.com")
        for name in ("allow", "block")
        for domain in getattr(search, name)
        if not is_domain(domain)
    ]
    return [(f"web_search.{name}", why) for name, why in found]


def _missing(search: WebSearchSettings, servers: Mapping[str, object]) -> list[str]:
    """Return what the chosen search engine needs and does not have."""
    match search.backend:
        case "searxng" if not search.url:
            return ["searxng needs its address; add `url`, such as http://127.0.0.1:8888"]
        case "command" if not search.command:
            return ['command needs the program; add `command = ["my-search"]`']
        case "model" if not search.model:
            return ['model needs the model; add `model = "openai/gpt-5.5"`']
        case "mcp" if not search.tool:
            return ["mcp needs the tool that searches; add `server` and `tool`"]
        case "mcp" if search.server not in servers:
            return [_no_server(search.server, servers)]
    return []


def _no_server(label: str, servers: Mapping[str, object]) -> str:
    known = ", ".join(servers) or "none"
    return (
        f"there is no MCP server {label!r} in [server_tools.mcp] (there: {known}); set `server`"
        f"{did_you_mean(label, servers)}"
    )


def _fetch_faults(fetch: WebFetchSettings) -> list[tuple[str, str]]:
    found = [
        (name, f"{domain!r} must be a domain without a scheme, such as example.com")
        for name in ("allow", "block")
        for domain in getattr(fetch, name)
        if not is_domain(domain)
    ]
    found += [
        ("allow_hosts", f"{host!r} must be a host, an address or a network such as 10.1.0.0/16")
        for host in fetch.allow_hosts
        if not _is_host(host)
    ]
    if fetch.allow and fetch.block:
        found.append(("block", "`allow` and `block` exclude each other; remove one of them"))
    if fetch.proxy and not _is_url(fetch.proxy):
        found.append(("proxy", f"{fetch.proxy!r} must be an http:// or https:// address"))
    return [(f"web_fetch.{name}", why) for name, why in found]


def _code_faults(settings: ServerToolSettings) -> list[tuple[str, str]]:
    code = settings.code_execution
    if not code.server and not code.tool:
        return []
    if code.server not in settings.mcp:
        return [("code_execution.server", _no_server(code.server, settings.mcp))]
    if not code.tool:
        return [("code_execution.tool", "must be the tool of the server that runs code")]
    return []


def _mcp_faults(label: str, server: McpServerSettings) -> list[tuple[str, str]]:
    where = f"mcp.{label}"
    if _LABEL.fullmatch(label) is None or "__" in label:
        text = (
            "must be 1 to 32 letters, digits, `-` and single `_`, and begin with a letter or digit"
        )
        return [(where, f"the label {label!r} {text}")]
    if bool(server.command) == bool(server.url):
        return [(where, "needs either `command` (a program) or `url` (a server), and not both")]
    if server.url and not _is_url(server.url):
        return [(f"{where}.url", f"{server.url!r} must be an http:// or https:// address")]
    if server.url and (server.args or server.env or server.cwd):
        return [(where, "`args`, `env` and `cwd` belong to `command`; remove them, or `url`")]
    if server.command and (server.headers or server.authorization):
        return [(where, "`headers` and `authorization` belong to `url`; remove them, or `command`")]
    return []


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_host(text: str) -> bool:
    if "/" in text:
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            return False
        return True
    return re.fullmatch(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s/@?#\[\]]+?)(?::\d{1,5})?", text) is not None
