"""The model of `toolbridge serve --local`: its file, its engine and its configuration."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from toolbridge import providers
from toolbridge.cli import state
from toolbridge.config import Config, ModelConfig
from toolbridge.routing.providers import LOCAL
from toolbridge.upstream import weights
from toolbridge.upstream.local import WINDOW, Engine, LoadedModel, check_installed


@contextmanager
def served(
    config: Config, given: str, *, default: bool = True
) -> Iterator[Callable[[Config], Config]]:
    """Serve the model file `given`, or SmolLM2 without one; yield what adds it to a configuration."""
    model = Path(given).expanduser() if given else _small()
    settings = config.models.get(f"{LOCAL}/{model.stem}", ModelConfig())
    print(f"loading {model.name} …", flush=True)
    engine = Engine(model, window=settings.window or WINDOW)
    try:
        loaded = engine.wait_until_ready()
        yield lambda config: configured(config, loaded, default=default)
    finally:
        engine.stop()


def _small() -> Path:
    folder = state.state_dir() / "models"
    found = weights.kept(folder)
    if found is None:
        check_installed()
        print(f"downloading {weights.FILE} ({weights.SIZE}, once) to {folder} …", flush=True)
        found = weights.fetch(folder)
    return found


def configured(config: Config, loaded: LoadedModel, *, default: bool) -> Config:
    """Return `config` with the model as `local/NAME`; the user's settings for it are kept."""
    address = f"{LOCAL}/{loaded.name}"
    provider_config = msgspec.structs.replace(
        providers.load("llamacpp"), url=f"{loaded.url}/v1", key=""
    )
    own = config.models.get(address, ModelConfig())
    known = msgspec.structs.replace(
        own,
        window=loaded.window,
        tools=loaded.tools if own.tools is None else own.tools,
        vision=loaded.vision if own.vision is None else own.vision,
    )
    return msgspec.structs.replace(
        config,
        map={**config.map, **({"default": address} if default else {})},
        providers={**config.providers, LOCAL: provider_config},
        models={**config.models, address: known},
    )
