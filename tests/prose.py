"""Find words of personification and riddles in docstrings, comments and messages of `src`.

`python -m tests.prose [PATH …]` prints each finding with its file and line. The rules are those of
the style guide: software does not tell, say, want, look, hear or hope, and a noun that a reader can
search for stands where "what", "one" or "somebody" stood.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SRC = Path(__file__).parent.parent / "src" / "toolbridge"
BANNED = {
    "personification": re.compile(
        r"\b(?:tells?|told|telling|says?|said|saying|wants?|wanted|wishe?s?|hears?|heard|hopes?"
        r"|speaks?|spoken|spoke|looks? (?!up\b)|looked(?! up\b)|knows? better|forgives?|minds)\b",
        re.IGNORECASE,
    ),
    "somebody": re.compile(
        r"\b(?:nobody|somebody|whoever|whom|one who|those who|everybody)\b", re.IGNORECASE
    ),
    "riddle": re.compile(
        r"\b(?:is none|are none|that is no\b|what came of|what becomes of|came to nothing"
        r"|is dear|of the house|its affair|a word of|words of|by heart|put right|at hand)\b",
        re.IGNORECASE,
    ),
    "old name": re.compile(
        r"\b(?:switchboard|roster|desk|purse|keepsakes?|errand|backstage|place that (?:answers|speaks)"
        r"|surfaces?|mend(?:s|ed|ing)?)\b",
        re.IGNORECASE,
    ),
}


class Finding(NamedTuple):
    file: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(SRC.parent.parent)}:{self.line}: {self.rule}: {self.text}"


def findings(file: Path) -> Iterator[Finding]:
    """Yield every banned word in the docstrings and comments of a module."""
    for line, text in sorted(_texts(file.read_text("utf-8"))):
        for offset, row in enumerate(text.split("\n")):
            plain = re.sub(r"`[^`]*`|\"[^\"]*\"", "…", row)
            for rule, pattern in BANNED.items():
                if pattern.search(plain):
                    yield Finding(file, line + offset, rule, row.strip())


def _texts(source: str) -> Iterator[tuple[int, str]]:
    readline = io.StringIO(source if "#" in source else "").readline  # tokenizing is slow
    for token in tokenize.generate_tokens(readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else []:
            match child:
                case ast.Expr(value=ast.Constant(value=str() as text)):
                    yield child.lineno, text


def main(paths: list[str]) -> int:
    found = [
        finding
        for path in map(Path, paths or [SRC])
        for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))
        for finding in findings(file.resolve())
    ]
    for finding in found:
        print(finding)
    print(f"{len(found)} findings")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
