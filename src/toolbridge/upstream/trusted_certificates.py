"""Checks the variables with which OpenSSL finds the certificates of trusted authorities.

OpenSSL ignores a file that it cannot read, so that every certificate is rejected later. Errors about
certificates and `toolbridge doctor` report such a file.
"""

import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path

_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")
"""OpenSSL, `openssl-rehash(1)`: the names under which a directory is searched."""


def trust_faults(env: Mapping[str, str]) -> list[str]:
    """Return what is wrong with `SSL_CERT_FILE` and `SSL_CERT_DIR`."""
    found = [_of_file(Path(file))] if (file := env.get("SSL_CERT_FILE")) else []
    if folders := env.get("SSL_CERT_DIR"):
        found += [_of_folder(Path(folder)) for folder in folders.split(os.pathsep) if folder]
    return [fault for fault in found if fault]


def _of_file(file: Path) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError:
        return f"`SSL_CERT_FILE` names {file}, which has no certificates in PEM format"
    except OSError as error:
        return f"`SSL_CERT_FILE` names {file}, which cannot be read ({error.strerror})"
    return ""


def _of_folder(folder: Path) -> str:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError as error:
        return f"`SSL_CERT_DIR` names {folder}, which cannot be read ({error.strerror})"
    if not any(_HASHED.fullmatch(name) for name in names):
        return (
            f"`SSL_CERT_DIR` names {folder}, which has no certificate under the name of its hash "
            "(run `openssl rehash` for it)"
        )
    return ""
