"""Read the private key of the wallet from a flag, a file or the environment.

No error message contains the key.
"""

from collections.abc import Mapping
from pathlib import Path

from toolbridge.core.errors import ConfigError
from toolbridge.node.protocol.encryption import Secret, check_private

VARIABLES = ("CLAUDE_BRIDGE_PRIVATE_KEY", "TOOLBRIDGE_NODE_KEY")


def key_from_text(text: str, source: str) -> Secret:
    """Return the key in `text`; errors name `source`."""
    try:
        return check_private(Secret.from_hex(text))
    except ValueError as error:
        raise ConfigError(f"{source} is not a private key: {error}") from None


def key_from_file(path: Path) -> Secret:
    """Return the key in `path`; raise `ConfigError` if other users can read the file."""
    try:
        mode = path.stat().st_mode
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise ConfigError(f"the key file {path} cannot be read: {why}") from None
    if mode & 0o077:
        raise ConfigError(f"other users can read the key file {path}; run `chmod 600 {path}`")
    return key_from_text(text, f"the key file {path}")


def find_key(env: Mapping[str, str], *, given: str = "", file: Path | None = None) -> Secret:
    """Return the key that was given, else that of the file, else that of the environment."""
    if given:
        return key_from_text(given, "the private key on the command line")
    if file is not None:
        return key_from_file(file)
    for name in VARIABLES:
        if env.get(name):
            return key_from_text(env[name], name)
    raise ConfigError(
        f"no private key is set; it pays for sessions and signs them. Set {VARIABLES[0]}, or "
        "--key-file with a file that only you can read"
    )
