"""The facts that decide which model a name means; `models.py` resolves names with them."""

from collections.abc import Collection, Mapping

import msgspec

LONGEST = 200
"""Characters of a name that are compared and shown; a client may send a name of any length."""


class ModelFacts(msgspec.Struct, frozen=True):
    """The facts that decide how a name is resolved."""

    table: Mapping[str, str | tuple[str, ...]] = {}
    """`[map]`: a name, alias or tier → an address or a listed name; or several, tried in order."""
    listed: Mapping[str, str] = {}
    """Every name that a configured or discovered provider lists → `provider/model`."""
    providers: Mapping[str, str] = {}
    """Every known provider → the variable of the key that it lacks; empty if it can be used."""
    cloud_lacks: Mapping[str, str] = {}
    """Providers in clouds that lack credentials → a clause with all that they lack."""
    configured: Collection[str] = ()
    """Providers that have a table in the configuration."""
    default: str = ""
    """The address of the default model: configured, discovered, or empty."""
    fixed: bool = False
    """Whether the user set the default; then it serves every name that is not resolved otherwise."""
    demo: str = ""
    """The demo model's address while no provider is configured or found; it serves Claude names."""
    owner: str = ""
    """The provider that an address without a provider belongs to."""
    silent: str = ""
    """An Ollama that is configured and does not answer; unlisted names are sent to it."""
    unlisted: Collection[str] = ()
    """Configured providers that have not listed their models: any name may be one of theirs."""
    fetches: bool = False
    """Whether an Ollama listed its models, so that `ollama pull` can be suggested."""
