"""Errors for providers that cannot be connected to: what failed, and the next step.

A text has two parts, separated by ". ": `toolbridge doctor` shows them on two lines. No text has a
key or the password of a proxy.
"""

import os
import ssl
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from toolbridge.core.errors import Unreachable
from toolbridge.upstream.masking import KeyMask
from toolbridge.upstream.wire_faults import (
    ConnectFailed,
    ConnectionClosed,
    ConnectTimedOut,
    ProxyFailed,
    reason,
)

if TYPE_CHECKING:
    from toolbridge.upstream.http_proxy import Proxy

GATEWAY = "the gateway"
"""The name of a gateway in errors, for its own clients."""
GENERAL_ADVICE = "Check that it runs and that its `url` is right; run `toolbridge doctor` to check every provider."
_ADVICE = {
    "ollama": "Start it with `ollama serve`, or set `OLLAMA_HOST`.",
    GATEWAY: "Start it with `toolbridge serve`, or correct its address.",
}
_SETTING = {"ollama": "`OLLAMA_HOST`", GATEWAY: "its address"}
# OpenSSL, x509_vfy.h: X509_V_ERR_…
_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_HOST = frozenset({62, 64})
_NOT_TLS = frozenset({
    "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL",
    "HTTP_REQUEST",
})  # fmt: skip
"""Reasons of OpenSSL for bytes that are not TLS; versions differ."""


class AskedServer(msgspec.Struct, frozen=True):
    """The server of a request, as errors name it."""

    provider: str
    url: str
    proxy: "Proxy | None" = None

    def __str__(self) -> str:
        through = f" (through {self.proxy.shown})" if self.proxy else ""
        return f"{self.direct}{through}"

    @property
    def direct(self) -> str:
        """The name and address, without the proxy."""
        if self.provider == "ollama":
            return f"Ollama at {origin(self.url).removeprefix('http://')}"
        return f"{self.provider} at {origin(self.url)}"

    @property
    def setting(self) -> str:
        """What has the address of the server."""
        return _SETTING.get(self.provider, "its `url`")

    @property
    def advice(self) -> str:
        if self.proxy is not None:
            return self.proxy.advice
        return _ADVICE.get(self.provider, GENERAL_ADVICE)

    @property
    def has_plain_url(self) -> bool:
        """Whether the address has no TLS: servers with TLS close such a connection without a byte."""
        return self.proxy is None and self.url.startswith("http://")

    @property
    def tls_advice(self) -> str:
        return f"If the server has TLS there, write `https://` in {self.setting}."

    def timed_out(self, error: ConnectTimedOut, wait: float) -> Unreachable:
        """Return the error for a server to which no connection was opened within `wait` seconds."""
        to_do = self.advice
        if self.proxy is not None:
            what = f"{self.direct} cannot be reached: {self.proxy.shown} opened no connection to it within {wait:g} s"
        elif error.accepted:
            what = f"{self} accepted the connection, but did not answer with TLS within {wait:g} s"
            to_do = f"Check {self.setting}: `http://` if the server has no TLS there."
        else:
            what = f"{self} accepted no connection within {wait:g} s"
        return Unreachable(f"{what}. {to_do}", provider=self.provider)

    def unreachable(self, error: BaseException, mask: KeyMask) -> Unreachable:
        """Return the error for a server that cannot be connected to, with the next step.

        A refused connection, a missing route, an unknown host and a certificate that is not accepted
        stay until the user changes something, so the error is permanent and clients do not retry:
        Claude Code would repeat a plain 502 for three minutes without a message. A server that
        closed the connection may be back at once. The gateway retries, because a server may be
        starting, but not a certificate that is not accepted, nor a server without TLS.
        """
        permanent, lasting = isinstance(error, ConnectFailed), False
        cause = error.os_error if isinstance(error, ConnectFailed) else error
        to_do = self.advice
        if isinstance(error, ProxyFailed):
            what = f"{self.direct} cannot be reached: {error}"
            to_do, permanent = error.to_do, error.permanent
        elif isinstance(cause, ssl.SSLCertVerificationError):
            what, to_do = self._not_trusted(cause)
            permanent = lasting = True
        elif permanent and isinstance(cause, ssl.SSLError) and not _dropped(cause):
            what, to_do = self._without_tls(cause)
            lasting = True
        elif isinstance(cause, ConnectionRefusedError):
            what = f"{self} refused the connection"
        elif permanent and _dropped(cause):
            what, permanent = f"{self} closed the connection during the TLS handshake", False
        else:
            what = f"{self} cannot be reached ({mask.text(reason(error))})"
            if isinstance(error, ConnectionClosed) and self.has_plain_url:
                to_do = f"{to_do} {self.tls_advice}"
        unreachable = Unreachable(f"{what}. {to_do}", provider=self.provider, permanent=permanent)
        unreachable.problem = replace(unreachable.problem, lasting=lasting)
        return unreachable

    def _not_trusted(self, error: ssl.SSLCertVerificationError) -> tuple[str, str]:
        """Return what is wrong with the certificate, and what to do."""
        why = (error.verify_message or str(error)).rstrip(".")
        what = f"{self} runs, but its certificate is not accepted ({why})"
        if error.verify_code in _OTHER_HOST:
            return what, f"Write a host name in {self.setting} that the certificate names."
        if error.verify_code in {_EXPIRED, _NOT_YET_VALID}:
            return what, "Renew the certificate, or correct the clock of this machine."
        from toolbridge.upstream.trusted_certificates import trust_faults

        if faults := trust_faults(os.environ):
            return f"{what}: {'; '.join(faults)}", "Correct the variable, and start again."
        if file := os.environ.get("SSL_CERT_FILE"):
            return what, (
                f"Add the certificate of its authority to {file} (`SSL_CERT_FILE`) and start again, "
                "or let the server send its intermediate certificates, too."
            )
        whose = "your own or that of a proxy which opens TLS" if self.proxy else "your own"
        return what, (
            f"If its authority is {whose}, set `SSL_CERT_FILE` to a PEM file with the authority's "
            "certificate, and start again."
        )

    def _without_tls(self, error: ssl.SSLError) -> tuple[str, str]:
        """Return why there is no TLS with the server, and what to do."""
        name = error.reason or ""
        if name in _NOT_TLS:
            to_do = f"Write `http://` in {self.setting}, or the port where the server has TLS."
            return f"{self} runs, but does not use TLS there", to_do
        why = name.lower().replace("_", " ") or "no reason given"
        return (
            f"{self} runs, but the TLS handshake failed ({why})",
            f"Check the TLS settings of the server, and {self.setting}.",
        )


def _dropped(error: BaseException) -> bool:
    """Return whether the server closed an accepted connection."""
    lost = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
    return isinstance(error, lost) and not isinstance(error, ConnectionRefusedError)


def origin(url: str) -> str:
    """Return the part of `url` that may be shown: no path, no query, no password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"
