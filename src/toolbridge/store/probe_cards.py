"""The report card of the last probe of each model, as a JSON file in the state directory.

`toolbridge probe` writes them, and `GET /v1/model_cards` shows them.
"""

from hashlib import blake2b
from pathlib import Path

from toolbridge.core.json import JsonObject, dump_bytes, maybe_object
from toolbridge.store import private_files

_FOLDER = "probes"


def save_card(state: Path, address: str, card: JsonObject) -> None:
    """Replace the card of the model at `address`; raise `OSError`."""
    file = _file(state, address)
    private_files.make_folder(file.parent)
    private_files.write(file, dump_bytes({**card, "address": address}))


def load_card(state: Path, address: str) -> JsonObject | None:
    """Return the card of the model at `address`; None without a readable one."""
    try:
        return maybe_object(_file(state, address).read_bytes())
    except OSError:
        return None


def _file(state: Path, address: str) -> Path:
    # A name of a model is no name of a file: it may contain slashes and be of any length.
    return state / _FOLDER / f"{blake2b(address.encode(), digest_size=12).hexdigest()}.json"
