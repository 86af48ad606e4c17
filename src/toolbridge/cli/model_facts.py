"""What is known about a model as text, with the source of each fact, for `models` and `doctor`."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from toolbridge.config import Config
from toolbridge.core.redaction import Redactor
from toolbridge.policy.model_facts import JoinedFacts, KnownModel
from toolbridge.routing.capabilities import CHECKED
from toolbridge.routing.learned_corrections import LearnedCorrections
from toolbridge.routing.request_corrections import RequestCorrections
from toolbridge.routing.route import Route
from toolbridge.routing.tool_modes import ToolModes
from toolbridge.state_dir import state_dir
from toolbridge.store.engines import Engines

_CAPABILITIES = ("tools", "parallel", "thinking", "vision", "pdf", "audio", "schema")


class LearnedFacts(NamedTuple):
    """What the gateways of this user have learned about models."""

    modes: ToolModes
    corrections: LearnedCorrections


async def load_learned(config: Config) -> LearnedFacts:
    """Return what was learned; nothing if no gateway has stored anything."""
    learned = LearnedFacts(ToolModes(), LearnedCorrections())
    engines = Engines(config, state_dir(os.environ), os.environ)
    if engines.has_values:
        store = engines.store(Redactor())
        await learned.modes.open(store)
        learned.corrections.attach(store, has_values=True)
        await learned.corrections.load()
        await store.close()
    return learned


def describe_learned(route: Route, learned: LearnedFacts) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and source of what was learned about the model of a route."""
    mode, why = learned.modes.explain(route)
    if why and not route.is_demo:
        yield "tool mode", mode, why
    reports: dict[str, None] = {}
    for way in (route, *route.others.values()):
        known = RequestCorrections(learned.corrections, way).known
        reports |= dict.fromkeys(f"{loss.what}: {loss.why}" for loss in known)
    for report in reports:
        yield "refuses", report, "learned"


def known_capabilities(known: KnownModel) -> str:
    """Return the capabilities that a model has, and those of which nothing is known."""
    unknown = [name for name in CHECKED if known.has(name) is None]
    if len(unknown) == len(CHECKED) and not known.can:
        return "unknown"
    has = ", ".join(sorted(known.can)) or "none"
    return f"{has}; unknown: {', '.join(unknown)}" if unknown else has


def describe(route: Route) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and source of each fact about the model of a route."""
    facts, known = route.facts, route.facts.known
    yield "API", _apis(route), "the only one of this model" if known.api == "responses" else ""
    if route.engine:
        yield "engine", route.engine, "provider"
    if window := route.shown_window:
        rule = "rejects longer prompts" if route.target.window else "only shown"
        yield "window", f"{window} tokens, {rule}", facts.sources.get("window", "config")
    if known.max_output:
        yield "output", f"at most {known.max_output} tokens", facts.sources["max_output"]
    for word, names in (("has", known.can), ("lacks", known.cannot)):
        shown = [name for name in _CAPABILITIES if name in names]
        if shown:
            yield word, ", ".join(shown), _of(facts, shown)
    for name, value, fields in _rules(known):
        yield name, value, _of(facts, fields)
    if known.retires:
        yield "retires", known.retires, facts.sources["retires"]


def _apis(route: Route) -> str:
    alone = route.facts.known.api == "responses"
    others = [] if alone else [f"{api} for its own clients" for api in route.others]
    return ", ".join([route.provider_config.api, *others])


def _rules(known: KnownModel) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the rules about thinking and refused parameters, with the fields that state them."""
    thinking: list[str] = [known.style] if known.style not in {"", "none"} else []
    if known.efforts:
        thinking.append(f"efforts {', '.join(known.efforts)}")
    if known.budget:
        thinking.append(f"budget {known.budget[0]} to {known.budget[1]} tokens")
    if known.always_thinks:
        thinking.append("cannot be turned off")
    if thinking:
        yield "thinking", "; ".join(thinking), ["style", "efforts", "budget", "always_thinks"]
    refused = {
        "temperature and top_p": known.sampling == "no",
        "temperature and top_p while it thinks": known.sampling == "effort_none",
        "forced tool calls": known.forced_tools is False,
        "a last message of the assistant": known.prefill is False,
        "system messages inside a conversation": known.system_in_place is False,
        "an effort": known.efforts == () and known.style != "none",
        "tools with reasoning in Chat Completions": known.api == "responses_for_tools",
    }
    if words := [word for word, is_refused in refused.items() if is_refused]:
        fields = ["sampling", "forced_tools", "prefill", "system_in_place", "api", "efforts"]
        yield "refuses", ", ".join(words), fields


def _of(facts: JoinedFacts, fields: list[str]) -> str:
    """Return the sources of the fields."""
    return ", ".join(dict.fromkeys(facts.sources[name] for name in fields if name in facts.sources))
