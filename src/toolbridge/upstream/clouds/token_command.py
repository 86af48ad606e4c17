"""Tokens from a command, such as `gcloud auth print-access-token`.

The command comes from the user's own configuration and is run without a shell. It prints a token, or
a JSON object with a token and its end: `az account get-access-token`, or the form of AWS's
`credential_process`.

What a command that fails prints goes to the log of the gateway only: clients get the error, and the
text may contain a secret.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json, JsonObject, maybe_object
from toolbridge.core.printable import printable
from toolbridge.core.redaction import Redactor
from toolbridge.upstream.clouds.renewal import Expiring
from toolbridge.upstream.clouds.sigv4 import AwsKeys

TIMEOUT = 60.0
"""Seconds. A command may ask an identity provider over the network."""
PLAIN_LIFE = 600.0
"""Seconds after which the command is run again if its output does not contain an expiry time."""
_MAX_OUTPUT = 256 * 1024
_MAX_LOGGED = 16 * 1024
_TOKENS = ("access_token", "accessToken", "token", "id_token")
_ENDS = ("expires_on", "Expiration", "expires_at", "expiry", "token_expiry", "expiresOn")


async def run_token_command(command: Sequence[str], provider: str) -> Expiring[str | AwsKeys]:
    """Return the token, or the keys, that `command` prints; raise `ConfigError` if it fails."""
    output = await _run(command, provider)
    found = maybe_object(output)
    if found is None:
        lines = output.decode("utf-8", "replace").split()
        if len(lines) != 1:
            raise _failed(command, provider, "printed no token")
        return Expiring(lines[0], time.time() + PLAIN_LIFE)
    until = _end(found)
    access, secret = found.get("AccessKeyId"), found.get("SecretAccessKey")
    if isinstance(access, str) and isinstance(secret, str):
        session = found.get("SessionToken")
        keys = AwsKeys(access, secret, session if isinstance(session, str) else "")
        return Expiring(keys, until)
    token = next((value for name in _TOKENS if isinstance(value := found.get(name), str)), "")
    if not token:
        raise _failed(command, provider, f"printed JSON without any of {', '.join(_TOKENS)}")
    return Expiring(token, until)


async def _run(command: Sequence[str], provider: str) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_MAX_OUTPUT,
        )
    except OSError as error:
        raise _failed(command, provider, f"cannot be run: {error.strerror or error}") from None
    try:
        async with asyncio.timeout(TIMEOUT):
            output, trouble = await process.communicate()
    except TimeoutError:
        raise _failed(command, provider, f"did not end within {TIMEOUT:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        _log_words(command, provider, trouble)
        raise _failed(command, provider, f"failed ({process.returncode})")
    return output


def _log_words(command: Sequence[str], provider: str, trouble: bytes) -> None:
    """Write what the command printed on standard error to the log, without secrets."""
    # Redacted before it is cut: the second half of a key has no shape by which it is found.
    text = Redactor().text(trouble[-_MAX_LOGGED:].decode("utf-8", "replace"))
    words = printable(" ".join(text.split()))[-600:]
    if words:
        logging.getLogger("toolbridge").warning(
            "toolbridge: providers.%s.token_command: %r printed: %s", provider, command[0], words
        )


def _failed(command: Sequence[str], provider: str, what: str) -> ConfigError:
    """Return the error; only the first word of the command is shown, an argument may be a secret."""
    return ConfigError(
        f"{command[0]!r} {what}; run it in a terminal, and check `token_command`",
        where=f"providers.{provider}.token_command",
    )


def _end(found: JsonObject) -> float:
    """Return when a token ends, from one of the fields in which tools write that."""
    life = found.get("expires_in", found.get("expiresIn"))
    if isinstance(life, int | float):
        return time.time() + life
    ends = (_time(found[name]) for name in _ENDS if name in found)
    return next((end for end in ends if end), time.time() + PLAIN_LIFE)


def _time(value: Json) -> float:
    if isinstance(value, int | float):
        return float(value)
    text = str(value)
    if text.isdecimal():
        return float(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
