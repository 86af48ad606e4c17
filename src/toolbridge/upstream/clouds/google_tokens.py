"""Access tokens of Google Cloud, from the files that `gcloud` and the console write.

Google, "Using OAuth 2.0 for Server to Server Applications": a service account signs a JWT with its
key and exchanges it for a token; a user's file has a refresh token. Other credentials (metadata
server, workload identity) need the package `google-auth`.
"""

import asyncio
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from toolbridge.core.errors import ConfigError, ToolbridgeError
from toolbridge.core.json import JsonObject, dump_bytes, maybe_object
from toolbridge.upstream.clouds.renewal import Expiring
from toolbridge.upstream.http import Upstream

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
AUDIENCE = "https://oauth2.googleapis.com/token"
_JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFE = 3600
_FORM = {"content-type": "application/x-www-form-urlencoded"}


class CredentialsFile(msgspec.Struct, frozen=True):
    """A file of Google Cloud with credentials."""

    type: str = ""
    project_id: str = ""
    quota_project_id: str = ""
    client_email: str = ""
    private_key: str = ""
    private_key_id: str = ""
    client_id: str = ""
    client_secret: str = ""
    refresh_token: str = ""
    token_uri: str = AUDIENCE


def read_file(path: Path, provider: str) -> CredentialsFile:
    """Return the content of a file; raise `ConfigError` if it has no usable credentials."""
    where = f"providers.{provider}.credentials_file"
    try:
        return msgspec.json.decode(path.read_bytes(), type=CredentialsFile)
    except OSError as error:
        why = f"{path} cannot be read ({error.strerror}); check the path"
        raise ConfigError(why, where=where) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        why = f"{path} is not a credentials file of Google Cloud; create a key in the console"
        raise ConfigError(why, where=where) from None


async def fetch_token(upstream: Upstream, file: CredentialsFile, provider: str) -> Expiring[str]:
    """Return an access token for the account of `file`."""
    if file.type == "service_account":
        assertion = await asyncio.to_thread(sign_assertion, file, int(time.time()))
        form = {"grant_type": _JWT_GRANT, "assertion": assertion}
    else:
        form = {
            "grant_type": "refresh_token",
            "client_id": file.client_id,
            "client_secret": file.client_secret,
            "refresh_token": file.refresh_token,
        }
    try:
        incoming = await upstream.ask(
            "POST",
            file.token_uri,
            provider=provider,
            body=urlencode(form).encode(),
            headers=_FORM,
            waits=(10.0, 30.0),
        )
        try:
            found = maybe_object(await incoming.read_whole(65_536)) or {}
        finally:
            await incoming.release()
    except ToolbridgeError as error:
        raise ConfigError(f"no token for Google Cloud: {error}") from None
    token, life = found.get("access_token"), found.get("expires_in")
    if incoming.status != 200 or not isinstance(token, str):
        raise _rejected(file, found, incoming.status)
    return Expiring(token, time.time() + (life if isinstance(life, int | float) else _LIFE))


def _rejected(file: CredentialsFile, found: JsonObject, status: int) -> ConfigError:
    why = found.get("error_description") or found.get("error") or f"status {status}"
    remedy = (
        f"create a new key for {file.client_email}"
        if file.type == "service_account"
        else "run `gcloud auth application-default login`"
    )
    return ConfigError(f"Google rejected the credentials ({why}); {remedy}")


def sign_assertion(file: CredentialsFile, now: int) -> str:
    """Return the JWT with which a service account asks for a token."""
    header: JsonObject = {"alg": "RS256", "typ": "JWT", "kid": file.private_key_id}
    claims: JsonObject = {
        "iss": file.client_email,
        "scope": SCOPE,
        "aud": AUDIENCE,  # also where `token_uri` is another address
        "iat": now,
        "exp": now + _LIFE,
    }
    text = f"{_base64(dump_bytes(header))}.{_base64(dump_bytes(claims))}"
    return f"{text}.{_base64(_sign(file.private_key, text.encode()))}"


def _sign(key: str, text: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding, rsa
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise ConfigError(
            "a service account's key needs a package: run `pip install '.[google]'`, or set "
            '`token_command = ["gcloud", "auth", "print-access-token"]`'
        ) from None
    try:
        private = load_pem_private_key(key.encode(), password=None)
    except (ValueError, TypeError):
        raise ConfigError("the service account's `private_key` is not a PEM key") from None
    if not isinstance(private, rsa.RSAPrivateKey):
        raise ConfigError("the service account's `private_key` is not an RSA key")
    return private.sign(text, padding.PKCS1v15(), hashes.SHA256())


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
