"""Finds secrets that are not configured, by their shape or by the text before them.

Shapes are those of well-known keys (`sk-…`, `ghp_…`, `AKIA…`), JSON Web Tokens and private keys in
PEM. The text before a secret is a name (`"api_key": …`, `password=…`), a scheme (`Bearer …`), a
query parameter (`?key=…`) or a login in a URL (`//name:password@`). Apart from PEM, a secret ends
with its line. `core.redaction` masks the secrets that are found here.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.core.masking import MASK

Edit: TypeAlias = tuple[int, int, str]
"""The start and end of a secret, and its replacement."""

_SHORTEST = 6
"""How many characters after `sk-` make a key even without a digit."""
_LONGEST_PEM = 16_384
"""The longest private key, in characters; RSA with 8192 bits takes 6,400."""
# Prefixes of keys, as their issuers document them for secret scanners.
_PREFIXES = (
    "gsk_", "csk-", "csk_", "rk_", "xai-", "hf_", "r8_", "fw_", "nvapi-", "tgp_v1_", "gho_", "ghp_",
    "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-",
    "xoxr-", "xoxs-", "xapp-", "AIza", "AKIA", "ASIA", "ABSK", "bedrock-api-key-", "ya29.", "npm_", "pypi-", "dop_v1_", "shpat_",
    "whsec_", "hvs.", "lin_api_", "sntrys_", "SG.", "tbk_",
)  # fmt: skip
_SK = ("sk-", "sk_", "pk-", "pk_")
# Not inside a word; the last letter of an escape in JSON or in a URL is not part of a word.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
_LOOKS = lazy_pattern(
    rf"{_START}(?:(?P<sk>[sp]k[-_][A-Za-z0-9_-]{{3,}})|(?:{'|'.join(map(re.escape, _PREFIXES))})[A-Za-z0-9_-]{{12,}}"
    r"|eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,})"
)
_STEMS = ("key", "authorization", "pass", "secret", "token", "cookie", "credential", "pwd")
"""Every name of a secret contains one of these, where its match begins."""
_OF_KEYS = (
    "api", "access", "secret", "private", "account", "auth", "signing", "encryption", "master",
    "subscription", "session",
)  # fmt: skip
_KEYS = "|".join(rf"(?<={kind})|(?<={kind}[-_])" for kind in _OF_KEYS)
NAMES = (
    rf"(?:{_KEYS})keys?(?:[-_]id)?|authorization"
    r"|pass(?:words?|wd|phrase|code)|secrets?|token|cookie|credentials?|pwd"
)
_NAMED = lazy_pattern(
    # The name, its closing quote, a colon, and a value: a JSON string, one in quotes that are
    # themselves escaped, or a bare one.
    rf"(?i)(?:{NAMES})(?P<close>\\{{0,4}}[\"'])?[ \t]{{0,4}}[:=][ \t]{{0,4}}"
    r"(?:\"(?P<string>[^\"\\\n]*(?:\\[^\n][^\"\\\n]*)*)"
    r"|(?P<quote>\\{1,4}\"|\\{0,4}')(?P<quoted>[^\n]*?)(?=(?<!\\)(?P=quote)|\n|\Z)"
    r"|(?!(?:null|true|false|none)\b)"
    r"(?P<bare>(?:(?:Bearer|Basic|Token|Digest|ApiKey)[ \t]{1,4})?[^\s\"'\\,;&<>{}\[\]()]+))"
)
_BEARER = lazy_pattern(rf"(?i){_START}bearer[ \t]{{1,4}}(?P<value>[a-z0-9._~+/=-]+)")
_PARAMETER = lazy_pattern(
    r"(?i)[?&](?:key|api[-_]?key|token|sig|signature|access_token|auth|password)="
    r"(?P<value>[^\s\"'\\&#<>{}\[\](),;]+)"
)
_LOGIN = lazy_pattern(r"://(?P<value>[^\s/@:\[\]\"'<>]{0,256}:[^\s/@\[\]\"'<>]{1,256})@")
# RFC 7468: the body is base64 in lines, here also with its line ends escaped as in JSON.
_PEM_BEGIN = lazy_pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_PEM_BODY = lazy_pattern(
    r"(?P<value>(?:[A-Za-z0-9+/=:,. \t-]|\\{1,4}[nr]|\s)*?)(?=-----|[^A-Za-z0-9+/=:,. \t\s\\-]|\Z)"
)
_MAY_GO_ON = lazy_pattern(
    rf"(?i)(?:(?:{NAMES})(?:\\{{0,4}}[\"'])?[ \t]{{0,4}}(?:[:=].*)?|bearer[ \t]{{0,4}}\S*)\Z"
)
"""The name of a secret at the end of a line, also with the beginning of its value."""
_BRACKETS = lazy_pattern(r"[{\[\\]")
_ASCII_LOWER = {ord(char): char.lower() for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_SECRET_NAME = lazy_pattern(rf"(?i)(?:{NAMES})\Z")
_BEGINNINGS = (*_SK, *_PREFIXES, "eyJ")
"""What a key or a token begins with."""
_ALL_SIGNS = ("?", "&", "://", "-----begin ", "bearer", *_STEMS, *map(str.lower, _BEGINNINGS))
_SIGNS = tuple(
    sign for sign in _ALL_SIGNS if not any(part in sign for part in _ALL_SIGNS if part != sign)
)
"""One of these is in every text with a secret, in lower case."""


def has_signs(text: str) -> bool:
    """Whether `text` may contain a secret, or a name that makes the text after it one."""
    return any(map(text.lower().__contains__, _SIGNS))


def find_secrets(text: str) -> Iterator[Edit]:
    """Yield an edit for every secret in `text`; they may overlap."""
    yield from _by_look(text)
    lower = lowered(text)
    yield from _by_name(text, lower)
    yield from _bearers(text, lower)
    yield from _private_keys(text)
    for pattern in (_PARAMETER, _LOGIN):
        for match in pattern.finditer(text):
            yield *match.span("value"), MASK


def find_names(text: str, pattern: re.Pattern[str], lower: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that begins with `NAMES`, in their order.

    Searching for plain strings is ten times as fast as searching for the pattern.
    """
    done = 0
    found = [stem for stem in _STEMS if stem in lower]
    for at in sorted(at for stem in found for at in _occurrences(lower, stem)):
        if at >= done and (match := pattern.match(text, at)) is not None:
            done = match.end()
            yield match


def lowered(text: str) -> str:
    """Return `text` in lower case, with the same length."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_ASCII_LOWER)


def _occurrences(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def is_secret_name(name: str) -> bool:
    """Whether a member of this name holds a secret: `x-api-key`, `githubToken`, not `max_tokens`."""
    return _SECRET_NAME.search(name) is not None


def settled_length(text: str) -> int:
    """Return how many characters of a line of prose belong to no secret, however the line goes on.

    They end with a word. A secret has no spaces, except after a name with a colon, after `Bearer`,
    in quotes or brackets after a name, and in PEM; then nothing is settled.
    """
    end = max(text.rfind(" "), text.rfind("\t")) + 1
    words = text[:end]
    goes_on = _MAY_GO_ON.search(words) or _BRACKETS.search(words) or "--" in words
    return 0 if goes_on else end


def opens_private_key(text: str) -> bool:
    """Whether a private key begins in `text` and does not end in it."""
    begins = text.rfind("-----BEGIN ")
    rest = text[begins:] if begins >= 0 else ""
    return 0 < len(rest) <= _LONGEST_PEM and "PRIVATE KEY" in rest[:80] and "-----END " not in rest


def _by_look(text: str) -> Iterator[Edit]:
    for prefix in [beginning for beginning in _BEGINNINGS if beginning in text]:
        done = 0
        for at in _occurrences(text, prefix):
            match = _LOOKS.match(text, at) if at >= done else None
            if match is None:
                continue
            done = match.end()
            if match["sk"] is None or _is_key(match["sk"]):
                yield *match.span(), MASK


def _is_key(found: str) -> bool:
    """Whether `found` is a key and not a word such as `sk-learn` or the language `sk-SK`."""
    rest = found[3:]
    return found.startswith("sk_") or len(rest) >= _SHORTEST or any(c.isdigit() for c in rest)


def _by_name(text: str, lower: str) -> Iterator[Edit]:
    for match in find_names(text, _NAMED, lower):
        if match["bare"] is not None:
            # A bare number becomes a string, so that JSON stays valid.
            quote = match["close"] or ""
            yield *match.span("bare"), f"{quote}{MASK}{quote}"
            continue
        kind = "string" if match["quoted"] is None else "quoted"
        if match[kind]:
            yield *match.span(kind), MASK


def _bearers(text: str, lower: str) -> Iterator[Edit]:
    for at in _occurrences(lower, "bearer"):
        match = _BEARER.match(text, at)
        if match is None:
            continue
        value = match["value"].rstrip(".")
        # An ordinary word after "bearer" is not a secret: bearer bonds, bearer token.
        if len(value) >= 16 or not value[1:].isalpha() or not value[1:].islower():
            yield *match.span("value"), MASK


def _private_keys(text: str) -> Iterator[Edit]:
    for match in _PEM_BEGIN.finditer(text):
        body = _PEM_BODY.match(text, match.end())
        if body is not None and body["value"].strip():
            yield *body.span("value"), MASK
