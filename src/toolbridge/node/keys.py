"""Where the wallet's key comes from. No message repeats it."""

from collections.abc import Mapping
from pathlib import Path

from toolbridge.core.errors import ConfigError
from toolbridge.node.protocol.encryption import Secret, check_private

VARIABLES = ("CLAUDE_BRIDGE_PRIVATE_KEY", "TOOLBRIDGE_NODE_KEY")


def key_from_text(text: str, source: str) -> Secret:
    try:
        return check_private(Secret.from_hex(text))
    except ValueError as error:
        raise ConfigError(f"{source} holds no private key: {error}") from None


def key_from_file(path: Path) -> Secret:
    """Return the key in `path`; refuse a file that others can read."""
    try:
        mode = path.stat().st_mode
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"the key file {path} cannot be read: {why}") from None
    if mode & 0o077:
        raise ConfigError(f"others can read the key file {path}; `chmod 600 {path}` mends that")
    return key_from_text(text, f"the key file {path}")


def find_key(env: Mapping[str, str], *, given: str = "", file: Path | None = None) -> Secret:
    """Return the key that was given, or that of the file, or that of the environment."""
    if given:
        return key_from_text(given, "the private key on the command line")
    if file is not None:
        return key_from_file(file)
    for name in VARIABLES:
        if env.get(name):
            return key_from_text(env[name], name)
    raise ConfigError(
        f"no private key: set {VARIABLES[0]}, or name a file that only you can read; "
        "it pays for sessions and signs them"
    )
