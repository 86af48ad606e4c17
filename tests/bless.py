"""Rewrite what transcripts expect: `python -m tests.bless [path …]`. Always read the diff."""

import sys
from pathlib import Path

from tests import transcript


def main(chosen: list[str]) -> None:
    for path in map(Path, chosen) if chosen else transcript.paths():
        if transcript.bless(path):
            print(f"blessed {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
