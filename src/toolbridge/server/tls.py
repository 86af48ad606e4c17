"""TLS for clients: the certificate, its key, and reading both again.

The defaults are those of Python's `ssl` module for servers, with TLS 1.2 as the lowest version. A
certificate that was renewed is used for new connections; open ones keep theirs.
"""

import ssl
from pathlib import Path

from toolbridge.config import TlsConfig
from toolbridge.core.errors import ConfigError


class TlsContext:
    """The TLS context of one port."""

    def __init__(self, tls: TlsConfig) -> None:
        """Read the certificate and its key; raise `ConfigError` with the file and the fault."""
        self.context = _context()
        self._load_into(self.context, tls)

    def load(self, tls: TlsConfig) -> None:
        """Use these files for new connections; raise `ConfigError` and keep the old ones."""
        self._load_into(_context(), tls)  # a fault must not leave half of the pair in use
        self._load_into(self.context, tls)

    def _load_into(self, context: ssl.SSLContext, tls: TlsConfig) -> None:
        cert, key = Path(tls.cert).expanduser(), Path(tls.key or tls.cert).expanduser()
        _check_readable(cert, "tls.cert")
        _check_readable(key, "tls.key" if tls.key else "tls.cert")
        try:
            context.load_cert_chain(cert, key, password=_no_password)
        except _NeedsPassword:
            text = f"{key} is encrypted; decrypt it with `openssl pkey -in {key} -out FILE`"
            raise ConfigError(text, where="tls.key") from None
        except ssl.SSLError as error:
            raise ConfigError(_fault(error, cert, key), where="tls") from None


class _NeedsPassword(Exception):
    """The key is encrypted."""


def _no_password() -> str:
    raise _NeedsPassword


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _check_readable(path: Path, where: str) -> None:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})", where=where) from None


def _fault(error: ssl.SSLError, cert: Path, key: Path) -> str:
    reason = (error.reason or "").replace("_", " ").lower()
    if "mismatch" in reason:
        return f"the key in {key} does not belong to the first certificate in {cert}"
    for path, mark, what in (
        (cert, b"-CERTIFICATE-", "certificate"),
        (key, b"KEY-", "private key"),
    ):
        if mark not in path.read_bytes().replace(b" ", b"-"):
            return f"{path} has no {what} in PEM format"
    return f"{cert} and {key} cannot be used ({reason or error}); check both with `openssl x509` and `openssl pkey`"
