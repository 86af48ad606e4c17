"""The errors for model names that nothing resolves: the nearest names, and the next command."""

import re
from collections.abc import Iterator

from toolbridge.core.close_names import close_names
from toolbridge.core.errors import UnknownModel
from toolbridge.policy.name_facts import LONGEST, ModelFacts


def unknown_model(name: str, vendor: str, facts: ModelFacts) -> UnknownModel:
    """Return the error for a name that no rule resolves; `vendor` makes models of such names."""
    nearest = tuple(dict.fromkeys(_nearest(name[:LONGEST], facts)))[:3]
    parts = [f"no model is called {name[:LONGEST]!r}."]
    if lacks := facts.cloud_lacks.get(vendor, ""):
        parts.append(f"It is a name of {vendor}, {lacks}.")
    elif variable := facts.providers.get(vendor, ""):
        parts.append(f"It is a name of {vendor}; set {variable} where toolbridge runs to use it.")
    if nearest:
        parts.append(f"Did you mean {' or '.join(nearest)}?")
    misspelt = misspelt_provider(name, facts, cutoff=0.6)
    if facts.fetches and not vendor and not misspelt and len(name) <= LONGEST:
        parts.append(f"`ollama pull {name}` fetches a model that Ollama has.")
    parts.append(next_step(facts))
    return UnknownModel(" ".join(parts), where="model", nearest=nearest)


def unknown_provider(address: str, facts: ModelFacts) -> UnknownModel:
    """Return the error for an address of the configuration whose provider does not exist."""
    word, model = re.split(r"[/,]", address[:LONGEST], maxsplit=1)
    near = close_names(word.lower(), facts.providers, 1, cutoff=0.5)
    text = (
        f"the configuration sends this request to {address[:LONGEST]!r}, and there is no provider "
        f"{word!r}."
    )
    if near:
        text += f" Did you mean {near[0]}/{model}?"
    own = next(iter(facts.configured), "") or "PROVIDER"
    text += (
        " A model whose own name has a slash needs its provider in front: "
        f"{own}/{address[:LONGEST]}."
    )
    nearest = (f"{near[0]}/{model}",) if near else ()
    return UnknownModel(text, where="model", nearest=nearest)


def next_step(facts: ModelFacts) -> str:
    """Return the sentence with the commands that show or set what names mean."""
    if facts.default:
        return "`toolbridge models` lists the names."
    return (
        "`toolbridge models` lists the names; `default` under [map] in toolbridge.toml, or "
        "`toolbridge serve --model PROVIDER/MODEL`, serves every other name (`--model demo` for "
        "the embedded demo model)."
    )


def _nearest(name: str, facts: ModelFacts) -> Iterator[str]:
    word, slash, model = name.partition("/")
    if slash and (near := misspelt_provider(name, facts, cutoff=0.6)):
        yield f"{near}/{model}"
        return
    known = {entry.lower(): entry for entry in facts.listed}
    named = (entry for entry in facts.table if entry != "default" and "*" not in entry)
    known |= {entry.lower(): entry for entry in named}
    near_names = [known[entry] for entry in close_names(name.lower(), known, n=6, cutoff=0.6)]
    # A model is listed as `model` and as `provider/model`; one of the two is suggested.
    addresses = {facts.listed.get(entry, entry): entry for entry in reversed(near_names)}
    yield from [entry for entry in near_names if entry in addresses.values()][:3]
    if not model and ":" not in word:
        for near in close_names(word.lower(), facts.providers, n=1, cutoff=0.8):
            yield f"{near}/MODEL"
    for provider in facts.unlisted:
        yield f"{provider}/{name}"


def misspelt_provider(name: str, facts: ModelFacts, *, cutoff: float) -> str:
    """Return the provider whose name the word before the slash resembles.

    Any other word may be part of the model's name: `hf.co/…`, `mistralai/…`.
    """
    provider, slash, model = name[:LONGEST].partition("/")
    if not slash or not model or provider in facts.providers:
        return ""
    near = close_names(provider.lower(), facts.providers, 1, cutoff=cutoff)
    return near[0] if near else ""
