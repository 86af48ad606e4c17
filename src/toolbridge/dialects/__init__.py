"""Dialects: tool calls and reasoning that models write as text.

A model that is served without a tool parser writes its calls in the format it was trained on. Each
dialect is such a format: how calls and reasoning are read from the text, and how calls and results
are written into the history. A dialect lives in the file of its name as `DIALECT`; dialects of one
family share a file as `DIALECTS` and are listed in `FAMILIES`. Users choose one with the setting
`dialect`; `auto` (auto.py) recognises all of them.
"""

from functools import cache, lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from toolbridge.core.close_names import did_you_mean
from toolbridge.core.errors import ConfigError
from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.models import MODELS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "toolbridge.dialects"
"""The entry point group for dialects of other packages."""
FAMILIES = {
    "bare_json": ("bare_json", "generic_json"),
    "cohere": ("cohere_cmd3", "cohere_cmd4", "command_r_plus"),
    "deepseek": ("cogito", "deepseek_v3", "deepseek_v31"),
    "deepseek_dsml": ("deepseek_dsml_v32", "deepseek_dsml_v4"),
    "functools_json": ("firefunction_v2", "phi4_mini"),
    "gemma": ("functiongemma", "gemma4"),
    "glm": ("glm45", "glm47", "ling3"),
    "llama3": ("llama3_json", "llama3_python_tag"),
    "mistral": ("mistral_args", "mistral_callid", "mistral_json"),
    "pythonic": ("llama4_pythonic", "pythonic"),
    "qwen3_xml": ("nemotron_v3", "qwen3_xml", "step3p5"),
    "think_tags": ("kimi_think", "think_tags"),
    "tool_calls_json": ("hunyuan_a13b", "jamba", "minimax_m1"),
}
"""The files that hold several dialects, and the names of these; they are known without an import."""
_OTHER_MODULES = frozenset(
    {"auto", "constrained", "dialect", "engines", "gate", "models", "prompt", "reader", "stage"}
)


@cache
def _modules() -> dict[str, str]:
    """Return the module of each built-in dialect, by the dialect's name."""
    found = {module.name for module in iter_modules(__path__)} - _OTHER_MODULES
    return {name: module for module in found for name in FAMILIES.get(module, (module,))}


@cache
def _entry_points() -> "dict[str, EntryPoint]":
    """Return the dialects of other packages, by name."""
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def names() -> list[str]:
    """Return the name of every dialect, in alphabetical order."""
    return sorted({*_modules(), *_entry_points()})


@cache
def load(name: str) -> Dialect:
    """Return the dialect called `name`; raise ConfigError for an unknown name."""
    module = _modules().get(name)  # never imports a module that is not a dialect
    if module is not None:
        return _from_module(module, name)
    if name in _entry_points():
        found: Dialect = _entry_points()[name].load()
        return found
    raise ConfigError(
        f"there is no dialect {name!r}; set one of: {', '.join(names())}"
        f"{did_you_mean(name, names())}",
        where="dialect",
    )


def _from_module(module: str, name: str) -> Dialect:
    loaded = import_module(f"{__name__}.{module}")
    dialects: tuple[Dialect, ...] = loaded.DIALECTS if module in FAMILIES else (loaded.DIALECT,)
    return next(dialect for dialect in dialects if dialect.name == name)


@lru_cache(256)
def for_model(model: str) -> str | None:
    """Return the dialect of a model by its name; None when the model is not in the table."""
    lower = model.lower()
    return next((dialect for part, dialect in MODELS if part in lower), None)
