"""The record of a login at the authorization server of an MCP server."""

import msgspec


class Login(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a login at the authorization server of an MCP server."""

    url: str
    token_endpoint: str
    client_id: str
    access_token: str
    client_secret: str = ""
    refresh_token: str = ""
    expires: float = 0.0
    """Seconds since the epoch; 0 if the server did not state an end."""
    scope: str = ""
    resource: str = ""
