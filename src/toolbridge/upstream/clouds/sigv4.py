"""AWS Signature Version 4, as a pure function of the request, the keys and the time.

Amazon, "Create a signed AWS API request": the signature covers the method, the path, the query,
some headers and the hash of the body. Few headers are signed, so that a proxy that adds or changes
others does not break it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

ALGORITHM = "AWS4-HMAC-SHA256"
SIGNED = ("content-type", "host", "x-amz-date", "x-amz-security-token")
"""The headers that are signed where a request has them."""


class AwsKeys(msgspec.Struct, frozen=True):
    """An access key, with the token of its session if it is temporary."""

    access_key: str
    secret_key: str
    session_token: str = ""


class Scope(msgspec.Struct, frozen=True):
    """The time, region and service that a signature is valid for."""

    at: str
    """`YYYYMMDD'T'HHMMSS'Z'`, in UTC."""
    region: str
    service: str

    @property
    def text(self) -> str:
        return f"{self.at[:8]}/{self.region}/{self.service}/aws4_request"


def sign(
    method: str, url: str, headers: Mapping[str, str], body: bytes, keys: AwsKeys, scope: Scope
) -> dict[str, str]:
    """Return `headers` with the headers of the signature; all names are in small letters."""
    split = urlsplit(url)
    signed = {name.lower(): value for name, value in headers.items()}
    signed |= {"host": split.netloc.rpartition("@")[2], "x-amz-date": scope.at}
    if keys.session_token:
        signed["x-amz-security-token"] = keys.session_token
    names = [name for name in SIGNED if name in signed]
    lines = [f"{name}:{' '.join(signed[name].split())}" for name in names]
    canonical = [
        method,
        quote(split.path or "/", safe="/~"),  # a path that is quoted already is quoted twice
        _query(split.query),
        *lines,
        "",
        ";".join(names),
        hashlib.sha256(body).hexdigest(),
    ]
    signature = _signature("\n".join(canonical), keys, scope)
    signed["authorization"] = (
        f"{ALGORITHM} Credential={keys.access_key}/{scope.text}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return signed


def _signature(canonical: str, keys: AwsKeys, scope: Scope) -> str:
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{keys.secret_key}".encode()
    for part in scope.text.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"{ALGORITHM}\n{scope.at}\n{scope.text}\n{digest}"
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def _query(query: str) -> str:
    pairs = sorted(parse_qsl(query, keep_blank_values=True))
    return "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in pairs)
