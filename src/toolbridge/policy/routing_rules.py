"""Rules that select a model by what a request is: the tables `[[routes]]` of the configuration.

The first rule whose conditions all hold decides. A rule without conditions always holds. Several
values of one condition are alternatives. `routing/rules.py` applies the rules.
"""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from math import log
from typing import Annotated, Literal, TypeAlias

import msgspec

from toolbridge.core.close_names import close_names
from toolbridge.core.errors import ConfigError
from toolbridge.core.messages import Image, Request, Result
from toolbridge.policy.agent_requests import CLIENTS, Headers, RequestKind, client_of, kind_of
from toolbridge.policy.models import TIERS, is_claude_name
from toolbridge.wire.json_paths import value_at

_UNKNOWN_EFFORTS = (
    "reasoning_effort",
    "reasoning.effort",
    "generationConfig.thinkingConfig.thinkingLevel",
)
"""Where the codecs of Chat Completions, Responses and Gemini keep an effort that they do not know."""

Task: TypeAlias = Literal[
    "main", "background", "subagent", "thinking", "long_context", "images"
]  # fmt: skip
LONG_CONTEXT = 60_000
"""Tokens from which a request is `long_context`, if the rule has no `min_tokens`."""


class WeightedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of several models, and its share of the conversations."""

    model: str
    weight: Annotated[float, msgspec.Meta(gt=0)] = 1.0


RuleTarget: TypeAlias = str | tuple[str | WeightedModel, ...]
"""An address or a name of the map; a chain of these; or several models with weights."""


class RoutingRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of `[[routes]]`: conditions, and the model that requests are sent to."""

    to: RuleTarget
    model: str | tuple[str, ...] = ()
    """Names that clients send: a name, a pattern with `*` and `?`, or a tier such as `haiku`."""
    task: Task | tuple[Task, ...] = ()
    client: str | tuple[str, ...] = ()
    """Agents, by the names in `agent_requests.AGENTS`, or patterns of the header `User-Agent`."""
    key: str | tuple[str, ...] = ()
    """Names of created keys, or patterns with `*` and `?`; other callers have no name."""
    min_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The estimated input tokens from which the rule applies."""

    @property
    def models(self) -> tuple[str, ...]:
        return _several(self.model)

    @property
    def tasks(self) -> tuple[str, ...]:
        return _several(self.task)

    @property
    def clients(self) -> tuple[str, ...]:
        return _several(self.client)

    @property
    def keys(self) -> tuple[str, ...]:
        return _several(self.key)

    @property
    def counts(self) -> bool:
        """Whether the rule depends on the number of input tokens."""
        return bool(self.min_tokens) or "long_context" in self.tasks

    @property
    def targets(self) -> tuple[WeightedModel, ...]:
        to = (self.to,) if isinstance(self.to, str) else self.to
        return tuple(WeightedModel(one) if isinstance(one, str) else one for one in to)

    @property
    def is_chain(self) -> bool:
        """Whether the models are tried in order, instead of sharing the conversations."""
        return not isinstance(self.to, str) and all(isinstance(one, str) for one in self.to)

    def models_for(self, session: str) -> tuple[str, ...]:
        """Return the models of a conversation, in the order in which they are tried."""
        if self.is_chain:
            return tuple(target.model for target in self.targets)
        return (weighted_choice(self.targets, session),)

    def describe(self) -> str:
        """Return the conditions in words, as they are written in the configuration."""
        named = {"model": self.models, "task": self.tasks, "client": self.clients, "key": self.keys}
        said = [f"{name} {' or '.join(values)}" for name, values in named.items() if values]
        if self.counts:
            said.append(f"at least {self.min_tokens or LONG_CONTEXT} tokens")
        return ", ".join(said) or "every request"

    def describe_targets(self) -> str:
        """Return the models, with the share of each if there are several."""
        total = sum(target.weight for target in self.targets)
        if len(self.targets) == 1 or self.is_chain:
            return ", then ".join(target.model for target in self.targets)
        return ", ".join(f"{t.model} ({t.weight / total:.0%})" for t in self.targets)


class RequestTraits(msgspec.Struct, frozen=True):
    """What the conditions of rules are compared with."""

    model: str = ""
    kind: RequestKind = "main"
    client: str = ""
    user_agent: str = ""
    thinking: bool = False
    images: bool = False
    tokens: int = 0
    key: str = ""
    """The name of the caller's created key."""


def traits_of(request: Request, headers: Headers, tokens: int = 0, key: str = "") -> RequestTraits:
    """Return the traits of a request; `tokens` is its estimated size, where a rule needs that."""
    return RequestTraits(
        model=request.model,
        kind=kind_of(request, headers),
        client=client_of(request, headers),
        user_agent=headers.get("user-agent", ""),
        thinking=_thinks(request),
        images=has_images(request),
        tokens=tokens,
        key=key,
    )


def matches(rule: RoutingRule, traits: RequestTraits) -> bool:
    """Return whether all conditions of `rule` hold."""
    return (
        (not rule.models or any(_is_named(pattern, traits.model) for pattern in rule.models))
        and (not rule.clients or any(_is_client(client, traits) for client in rule.clients))
        and (not rule.keys or any(_is_key(pattern, traits.key) for pattern in rule.keys))
        and traits.tokens >= rule.min_tokens
        and (not rule.tasks or any(_is_task(task, rule, traits) for task in rule.tasks))
    )


def explain_rules(rules: Sequence[RoutingRule], name: str) -> list[str]:
    """Return a line for each rule that may apply to requests for the model `name`."""
    return [
        f"{number}. {rule.describe()} → {rule.describe_targets()}"
        for number, rule in enumerate(rules, 1)
        if not rule.models or any(_is_named(pattern, name) for pattern in rule.models)
    ]


def weighted_choice(targets: Sequence[WeightedModel], key: str) -> str:
    """Return the model of a conversation: always the same for the same `key`.

    Weighted rendezvous hashing: if a model is added or removed, only the conversations that it
    gains or loses change their model.
    """
    return max(targets, key=lambda target: _score(target, key)).model


def has_images(request: Request) -> bool:
    """Return whether a message or the result of a tool contains an image."""
    for turn in request.turns:
        for part in turn.content:
            inner = part.content if isinstance(part, Result) else (part,)
            if any(isinstance(one, Image) for one in inner):
                return True
    return False


def check_rules(rules: Sequence[RoutingRule], providers: Collection[str]) -> None:
    """Raise `ConfigError` for a rule with an unusable target or an unknown client."""
    for number, rule in enumerate(rules, 1):
        where = f"routes.{number}"
        if not rule.targets or not all(target.model.strip() for target in rule.targets):
            raise ConfigError("needs a model: `to` is empty", where=where)
        if not isinstance(rule.to, str) and len({type(one) for one in rule.to}) > 1:
            text = "`to` is either a chain of addresses or a list of tables with weights"
            raise ConfigError(text, where=where)
        for target in rule.targets:
            _check_provider(target.model, providers, where)
        for client in rule.clients:
            if client not in CLIENTS and not _is_pattern(client):
                text = f"there is no client {client!r}; use one of {', '.join(CLIENTS)}, or a "
                hint = "pattern of the header User-Agent, such as 'aider/*'"
                raise ConfigError(text + hint, where=where)


def _check_provider(address: str, providers: Collection[str], where: str) -> None:
    provider, slash, _ = address.partition("/")
    if not slash or provider in providers:
        return
    if near := close_names(provider, providers, cutoff=0.9):
        text = f"there is no provider {provider!r}; did you mean {near[0]!r}?"
        raise ConfigError(text, where=where)


def _several(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _is_named(pattern: str, model: str) -> bool:
    name, pattern = model.strip().lower(), pattern.strip().lower()
    if pattern in TIERS and is_claude_name(name) and pattern in name:
        return True
    # Claude Code adds `[1m]`, Gemini's clients `models/`.
    plain = name.removesuffix("[1m]").removeprefix("models/")
    return name == pattern or fnmatchcase(plain, pattern)


def _is_key(pattern: str, name: str) -> bool:
    return bool(name) and fnmatchcase(name, pattern)


def _is_client(client: str, traits: RequestTraits) -> bool:
    if not _is_pattern(client):
        return traits.client == client
    return fnmatchcase(traits.user_agent.lower(), client.lower())


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text


def _is_task(task: str, rule: RoutingRule, traits: RequestTraits) -> bool:
    if task == "thinking":
        return traits.thinking
    if task == "images":
        return traits.images
    if task == "long_context":
        return traits.tokens >= (rule.min_tokens or LONG_CONTEXT)
    return traits.kind == task


def _thinks(request: Request) -> bool:
    think = request.think
    if think.mode == "off" or think.budget:
        return think.mode != "off"
    if think.effort:
        return think.effort not in {"none", "minimal"}
    unknown = any(value_at(request.extra, path) for path in _UNKNOWN_EFFORTS)
    return think.mode != "unset" and not unknown


def _score(target: WeightedModel, key: str) -> float:
    digest = blake2b(f"{key}\0{target.model}".encode(), digest_size=6).digest()
    # Between 0 and 1, and neither of them, so that the logarithm is finite and not zero.
    share = (int.from_bytes(digest) + 0.5) / 2**48
    return -target.weight / log(share)
