"""Command line of the vector check: print `N passed, M failed`, and exit with 1 on failures."""

import sys
from collections.abc import Callable
from pathlib import Path

from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import Json, loads
from toolbridge.node.vectors import hosts, sealed, transcript
from toolbridge.node.vectors.case import Checks, VectorCase, each, one

KINDS: dict[str, Callable[[Json], Checks]] = {
    "identities": each(sealed.identity),
    "ecdh_hkdf": each(sealed.exchange),
    "session_init": each(sealed.handshake),
    "encrypted_message": each(sealed.message),
    "encrypted_chunk": each(sealed.chunk),
    "encrypted_response": each(sealed.response),
    "must_fail": each(sealed.must_fail),
    "host_key_challenge": one(sealed.challenge),
    "sdk_privatekey_identity": one(sealed.seed),
    "encryption_key_from_seed": each(sealed.seed),
    "published": one(sealed.published),
    "model_ids": each(hosts.model),
    "host_scoring": each(hosts.scoring),
    "abi": one(hosts.abi),
    "sdk_transcript": one(transcript.transcript),
    "node_prompt_flattening": one(hosts.flattening),
}


def check_file(path: Path) -> tuple[int, list[str]]:
    """Return how many checks passed, and a description of each failure."""
    passed = 0
    wrong: list[str] = []
    for kind, value in VectorCase(loads(path.read_bytes())).fields.items():
        if kind.startswith("_"):
            continue
        if kind not in KINDS:
            wrong.append(f"{kind}: unknown kind of vector")
            continue
        for name, got, right in _checks(kind, value):
            if got == right:
                passed += 1
            else:
                wrong.append(f"{name}: {got!r} instead of {right!r}")
    return passed, wrong


def _checks(kind: str, value: Json) -> Checks:
    """Yield the checks of a kind; a kind without any comparison is a failure."""
    found = False
    try:
        for name, got, right in KINDS[kind](value):
            found = True
            yield f"{kind} {name}", got, right
    except (ToolbridgeError, ValueError, TypeError, KeyError) as error:
        yield kind, f"{type(error).__name__}: {error}", "no error"
    if not found:
        yield kind, "nothing to compare", "something"


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m toolbridge.node.vectors FILE\n")
        return 2
    try:
        passed, wrong = check_file(Path(sys.argv[1]))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{sys.argv[1]}: {error}\n")
        return 2
    for line in wrong:
        sys.stderr.write(f"{line[:400]}\n")
    sys.stdout.write(f"{passed} passed, {len(wrong)} failed\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
