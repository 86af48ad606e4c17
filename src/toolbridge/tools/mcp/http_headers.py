"""The header fields of requests to an MCP server: configured ones, and the access token."""

from collections.abc import Mapping

import aiohttp

from toolbridge.environment import secret
from toolbridge.server_tool_settings import McpServerSettings
from toolbridge.tools.mcp.logins import Logins


class HttpHeaders:
    """Makes the header fields for one server. Without `env`, values are sent as they are."""

    def __init__(
        self,
        label: str,
        settings: McpServerSettings,
        env: Mapping[str, str] | None,
        logins: Logins,
        session: aiohttp.ClientSession,
    ) -> None:
        self._label = label
        self._settings = settings
        self._env = env
        self._logins = logins
        self._session = session

    async def now(self, renew: bool) -> dict[str, str]:  # noqa: FBT001  the type HeadersNow
        """Return the header fields; with `renew` the server has refused the last access token."""
        settings = self._settings
        found = {name.lower(): self._value(value) for name, value in settings.headers.items()}
        if token := self._value(settings.authorization):
            found["authorization"] = token if " " in token else f"Bearer {token}"
        elif self._env is not None and "authorization" not in found:
            token = await self._logins.token(self._label, settings.url, self._session, renew=renew)
            if token:
                found["authorization"] = f"Bearer {token}"
        return found

    def _value(self, given: str) -> str:
        return given if self._env is None else secret(given, self._env)
