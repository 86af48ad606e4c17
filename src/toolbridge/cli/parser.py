"""The parser of command lines: `argparse`, with the nearest word in the error for a mistyped one."""

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import NoReturn

from toolbridge.core.close_names import did_you_mean

_CHOICE = re.compile(r"invalid choice: '(.+?)' \(choose from (.+)\)")


class CommandParser(argparse.ArgumentParser):
    """Parses the arguments of a command; argparse uses the same class for its subcommands."""

    def __init__(self, prog: str, *, description: str | None = None) -> None:
        super().__init__(prog, description=description, allow_abbrev=False)
        self._given: Sequence[str] = ()
        # `-5/day` is a value, which has an error of its own; argparse takes only `-5` for one.
        self._negative_number_matcher = re.compile(r"-\.?[0-9]")

    def parse_known_args(  # type: ignore[override]  # namespaces of other classes are not used
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse `args`; unknown words are an error, also those of a subcommand."""
        self._given = args or ()
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        super().error(message + self._suggestion(message))

    def _suggestion(self, message: str) -> str:
        if choice := _CHOICE.search(message):
            return nearest(choice[1], re.findall(r"[\w-]+", choice[2]))
        words = self._given[: self._given.index("--")] if "--" in self._given else self._given
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        names = (word.partition("=")[0] for word in words if word.startswith("--"))
        return next((nearest(name, flags) for name in names if name not in flags), "")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of an error: the known word that is most like `word`, if any is."""
    return did_you_mean(word, known)
