"""The logins of MCP servers: access tokens in the user's state directory, renewed when they expire.

`toolbridge mcp login` writes them, each in a file that only its owner can read. A login belongs to
the URL that it was made for; if the configuration changes the URL, it is not sent there.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import msgspec

from toolbridge.core.errors import ConfigError
from toolbridge.state_dir import state_dir
from toolbridge.store.private_files import make_folder, write
from toolbridge.tools.mcp.login import Login
from toolbridge.tools.mcp.oauth import OauthFailure, renewed_login

FOLDER = "mcp"
_EARLY = 60.0
"""Seconds before its end from which a token is renewed."""
_log = logging.getLogger("toolbridge.mcp")


class Logins:
    """Reads, renews and stores logins."""

    def __init__(self, env: Mapping[str, str]) -> None:
        state = state_dir(env)
        self._folder = None if state is None else state / FOLDER
        self._renewing: dict[str, asyncio.Lock] = {}

    async def token(
        self, label: str, url: str, session: aiohttp.ClientSession, *, renew: bool = False
    ) -> str:
        """Return the access token for a server; empty without a login.

        With `renew` the server has refused the token that is stored.
        """
        login = self.find(label)
        if login is None or login.url != url:
            return ""
        late = login.expires and time.time() > login.expires - _EARLY
        if not login.refresh_token or not (renew or late):
            return login.access_token
        async with self._renewing.setdefault(label, asyncio.Lock()):
            # Another request, or another process, may have renewed it in the meantime.
            current = self.find(label) or login
            if current.access_token == login.access_token:
                current = await self._renewed(label, current, session)
            return current.access_token

    async def _renewed(self, label: str, login: Login, session: aiohttp.ClientSession) -> Login:
        try:
            found = await renewed_login(login, session)
        except OauthFailure as error:
            _log.warning("toolbridge: mcp %s: the login cannot be renewed: %s", label, error)
            return login
        self.save(label, found)
        return found

    def find(self, label: str) -> Login | None:
        """Return the stored login; None without a file, or if the file is broken."""
        file = self._file(label)
        if file is None:
            return None
        try:
            return msgspec.json.decode(file.read_bytes(), type=Login)
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, label: str, login: Login) -> None:
        file = self._file(label)
        if file is None:
            raise ConfigError("there is no state directory; set HOME or XDG_STATE_HOME")
        make_folder(file.parent)
        write(file, msgspec.json.encode(login))

    def forget(self, label: str) -> bool:
        """Remove a login; return whether there was one."""
        file = self._file(label)
        if file is None or not file.exists():
            return False
        file.unlink()
        return True

    def _file(self, label: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{label}.json"
