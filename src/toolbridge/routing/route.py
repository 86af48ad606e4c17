"""A route: the provider and model that serve a request, with the settings of both."""

from collections.abc import Mapping
from functools import cached_property

import msgspec

from toolbridge import codecs
from toolbridge.config import ModelConfig, ProviderConfig, ToolModeSetting
from toolbridge.core.codec import RequestEncoder, Target, TargetCodec
from toolbridge.core.messages import Request
from toolbridge.history.seals import maker_name
from toolbridge.policy.api_choice import accepts_in
from toolbridge.policy.model_facts import JoinedFacts
from toolbridge.policy.tool_modes import Constraint, ToolSupport
from toolbridge.routing.capabilities import shown_window, target_of
from toolbridge.routing.nodes import NODE, NodeRequestEncoder
from toolbridge.routing.providers import DEMO, OLLAMA
from toolbridge.upstream.cloud_endpoint import CloudEndpoint
from toolbridge.upstream.hosts import hostname, is_loopback

RETRIES = 2


class Route(msgspec.Struct, frozen=True, dict=True):
    """The provider and model that serve a request, with the settings of both."""

    provider: str
    provider_config: ProviderConfig
    key: str
    target: Target
    settings: ModelConfig = ModelConfig()
    facts: JoinedFacts = JoinedFacts()
    """What is known about the model, with the source of each fact."""
    engine: str = ""
    """The engine of the server, such as `llama.cpp` or `vllm`, as far as it is known."""
    template: str = ""
    """The hash of the model's chat template, where the server shows it (llama.cpp)."""
    slots: int = 0
    """The number of slots of the server (llama.cpp); 0 if it has none or they are unknown."""
    endpoint: CloudEndpoint | None = None
    """Signs the requests of a provider in a cloud; None for every other."""

    others: Mapping[str, "Route"] = {}
    """The routes to the same model through the provider's other APIs, by the API."""
    address: str = ""
    is_demo: bool = False
    is_node: bool = False
    is_local: bool = False
    """Whether the provider runs on this machine. It follows from the other fields, as those above."""

    def __post_init__(self) -> None:
        api = self.provider_config.api
        derive = msgspec.structs.force_setattr
        derive(self, "address", f"{self.provider}/{self.target.model}")
        derive(self, "is_demo", api == DEMO)
        derive(self, "is_node", api == NODE)
        derive(self, "is_local", is_loopback(hostname(self.provider_config.url)))

    def serving(self, api: str, request: Request) -> "Route":
        """Return the route for a client of `api`: in that API, where the model accepts it."""
        other = self.others.get(api)
        return other if other and self._accepts(api, request) else self

    def _accepts(self, api: str, request: Request) -> bool:
        return accepts_in(api, self.facts.known, request, self.target.model)

    @property
    def shown_window(self) -> int:
        """The context window that is shown to clients; 0 if it is unknown."""
        return shown_window(self.provider_config, self.facts)

    # Each value below follows from the fields alone and is needed by every request to the route.

    @cached_property
    def maker(self) -> str:
        """The provider, API and model that sign the opaque tokens of an answer."""
        return maker_name(self.provider_config.api, self.provider, self.target.model)

    @cached_property
    def tool_mode(self) -> ToolModeSetting:
        """The setting `tool_mode` of the model, else that of its provider."""
        return self.settings.tool_mode or self.provider_config.tool_mode

    @cached_property
    def tool_support(self) -> ToolSupport:
        """What the provider and the model can do with tools."""
        # Ollama, docs/api: `/api/chat` has no tool choice. Others that cannot force a call have a quirk.
        is_ollama = self.provider_config.api == OLLAMA
        ignores = is_ollama or self.target.quirks.get("tool_choice_required", True) is False
        # A constraint that is only assumed is no reason to give up the native tools. Every Ollama
        # has `format`, whatever the name of its provider is.
        is_sure = self.provider_config.constraint or (is_ollama and self.constraint)
        return ToolSupport(
            native=self.target.can("tools"),
            binds=not (ignores and is_sure),
            constraint=self.constraint,
        )

    @cached_property
    def tags_calls(self) -> bool:
        """Whether the provider has the quirk `structural_tags`."""
        return bool(self.target.quirks.get("structural_tags"))

    @cached_property
    def constraint(self) -> Constraint:
        """How the provider constrains an answer: its setting, else what its API has."""
        if self.provider_config.constraint is not None:
            return self.provider_config.constraint
        has_none = self.is_node or self.is_demo
        return "" if has_none or self.target.quirks.get("json_schema") is False else "json_schema"

    @cached_property
    def codec(self) -> TargetCodec:
        return codecs.load_target(self.provider_config.api)

    @cached_property
    def sent_heads(self) -> dict[str, tuple[str, dict[str, str]]]:
        """Path → the URL and the headers of requests that add no headers of their own."""
        return {}

    @cached_property
    def request_encoder(self) -> RequestEncoder | None:
        """The encoder for requests to the provider; None for the demo model, which takes ours."""
        if self.is_demo:
            return None
        return NodeRequestEncoder() if self.is_node else self.codec

    @cached_property
    def retries(self) -> int:
        """The number of retries; none for a node, whose session reconnects and pays by itself."""
        if self.provider_config.retries is not None:
            return self.provider_config.retries
        return 0 if self.is_node else RETRIES


def in_api(route: Route, api: str) -> Route:
    """Return the route to the same model through another API of its provider."""
    quirks = route.provider_config.other_apis[api]
    at = msgspec.structs.replace(route.provider_config, api=api, quirks=quirks)
    target = target_of(route.provider, at, route.target.model, route.settings, route.facts)
    return msgspec.structs.replace(route, provider_config=at, target=target)
