"""What `doctor` and the banner report about `store` and `ledger`: where they are, and who shares them."""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from toolbridge.config import Config
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.redaction import Redactor
from toolbridge.state_dir import state_dir
from toolbridge.store import StoreUnavailable
from toolbridge.store.engines import STORE_FILE, Engines, ledger_url, store_url
from toolbridge.store.interface import Store
from toolbridge.store.private_files import folder_fault
from toolbridge.store_settings import ServerUrl, remedy

Checked: TypeAlias = tuple[bool | None, str, str]
"""Whether it is good (None for a note), what was found, and what to do."""


async def check_stores(config: Config) -> list[Checked]:
    """Return whether store, keys and ledger can be used."""
    engines = Engines(config, state_dir(os.environ), os.environ)
    found = [await _check_store(config, engines)]
    if url := ledger_url(config, os.environ):
        found.append(await _check_server(ServerUrl(url).shown, engines))
    found += [(None, line, "") for line in describe_sharing(config, os.environ)]
    return found


_NO_FOLDER = "there is no state directory (HOME is not set): values are kept in memory only"
_SET_FOLDER = "set HOME or XDG_STATE_HOME"


async def check_state(store: Store, folder: Path | None) -> list[str]:
    """Return the problem of a state directory that cannot be used, or that is not set.

    `/health` shows it from now on.

    The store opens its file when it is needed, so a directory without a fault costs no time here.
    """
    if folder is None:  # a store on a server needs none
        return [f"{_NO_FOLDER}; {_SET_FOLDER}"] if await store.check() else []
    if not (fault := folder_fault(folder)):
        return []
    await store.check()
    return [_unusable(folder, fault)]


def _unusable(folder: Path, fault: str) -> str:
    return f"the state directory {folder} cannot be used ({fault}); store and ledger are in memory only"


async def _check_store(config: Config, engines: Engines) -> Checked:
    state, url = state_dir(os.environ), store_url(config, os.environ)
    place = ServerUrl(url).shown if url else str(state / STORE_FILE if state else "memory")
    try:
        store = engines.store(Redactor())
        trouble = await store.check()
        await store.close()
    except ToolbridgeError as error:
        return False, str(error), ""
    if trouble and url:
        to_do = f"{remedy(trouble, 'store')}; the gateway does not start without it"
        return False, f"store: {trouble}", to_do
    if trouble and state is None:
        return False, _NO_FOLDER, _SET_FOLDER
    if trouble and state is not None and (fault := folder_fault(state)):
        to_do = "make it a directory that you can write to, or set XDG_STATE_HOME"
        return False, _unusable(state, fault), to_do
    if trouble:
        to_do = (
            "free disk space, make it writable, or set XDG_STATE_HOME; until then values are kept "
            "in memory only"
        )
        return False, f"{place} cannot be used: {trouble}", to_do
    return True, f"store: {place}", ""


async def _check_server(place: str, engines: Engines) -> Checked:
    keys = engines.keys()
    try:
        count = 0 if keys is None else len(await keys.all())
        if (open_ledger := engines.ledger) is not None:
            ledger = open_ledger()
            await asyncio.to_thread(ledger.totals, "day", time.time())
            await asyncio.to_thread(ledger.close)
    except StoreUnavailable as error:
        return False, f"ledger: {error}", remedy(str(error), "ledger")
    except ToolbridgeError as error:
        return False, str(error), ""
    finally:
        if keys is not None:
            await keys.close()
    return True, f"ledger: {place}, with {count} {'key' if count == 1 else 'keys'}", ""


def describe_sharing(config: Config, env: Mapping[str, str]) -> list[str]:
    """Return what gateways on several machines share, if a server is set and only a part is."""
    store, ledger = store_url(config, env), ledger_url(config, env)
    if store and not ledger:
        return [
            (
                "budgets, stored responses and streams are shared by all gateways on this store; keys "
                "and the ledger are in files of this machine: set `ledger` to share them"
            )
        ]
    if ledger and not store:
        return [
            (
                "keys and the ledger are shared by all gateways on this server; budgets, stored "
                "responses and streams are in files of this machine, so that each machine has a budget "
                "of its own: set `store` to share them"
            )
        ]
    return []


def describe_servers(config: Config, env: Mapping[str, str]) -> list[str]:
    """Return the lines of the banner; none for one person on files."""
    store, ledger = store_url(config, env), ledger_url(config, env)
    lines = [f"Store:          {ServerUrl(store).shown}"] if store else []
    lines += [f"Ledger, keys:   {ServerUrl(ledger).shown}"] if ledger else []
    return lines + [f"                {line}" for line in describe_sharing(config, env)]
