"""Settings of the server: its limits, TLS, reloading, processes and shutdown.

They are part of `config.Config`; `docs/reference/settings.md` describes them.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
"""More than zero: a timer of zero seconds would keep the event loop busy."""
Grace: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the HTTP server; most apply before authentication."""

    max_head: Annotated[int, msgspec.Meta(ge=1024)] = 32 * 1024
    """The maximum size of request line and header fields, in bytes."""
    max_headers: Annotated[int, msgspec.Meta(ge=1)] = 100
    head_timeout: Seconds = 30.0
    """Seconds from the first byte of a head to its last."""
    body_timeout: Seconds = 30.0
    """Seconds without a byte of the body."""
    idle_timeout: Seconds = 75.0
    """Seconds for which an idle connection is kept open; longer than in clients (5 to 60 s), so
    that the gateway does not close one on which a client is sending."""
    max_connections: Annotated[int, msgspec.Meta(ge=1)] = 4096
    """Four times `max_requests`: clients keep idle connections in pools."""
    max_requests: Annotated[int, msgspec.Meta(ge=1)] = 1024
    """The maximum number of concurrent requests; health and metrics are not counted."""


class TlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A second port with TLS, open if `cert` is set."""

    port: Port = 3457
    host: str = ""
    """The address to listen on; empty for `host` of the server."""
    cert: str = ""
    """The file with the certificate chain, in PEM."""
    key: str = ""
    """The file with the private key, in PEM and without a password; empty if `cert` has it too."""


class ServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the gateway is run."""

    reload: Literal["auto", "signal", "off"] = "auto"
    """When the configuration is read again: after a change of the file, by SIGHUP only, or never."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1
    """The number of processes that serve the port."""
    stop_grace: Grace = 5.0
    """Seconds for which a shutdown waits for running requests."""
    restart_grace: Grace = 600.0
    """Seconds for which a process that was replaced finishes its running requests."""
    drain_delay: Grace = 0.0
    """Seconds for which SIGTERM leaves the port open while readiness is 503."""
    resume_grace: Grace = 0.0
    """Seconds for which an answer is read on after its client has left, so that a retry can have it."""
    resume_repeats: Literal["retries", "any", "off"] = "retries"
    """Which requests without a key get an answer whose client has left, if it is to the same body."""
    resume_keep: Seconds = 3600.0
    """Seconds for which a kept answer can be repeated."""
    resume_bytes: Size = 8 * 1024 * 1024
    """The maximum size of one kept answer, in bytes."""
    http: HttpConfig = HttpConfig()
    tls: TlsConfig = TlsConfig()
