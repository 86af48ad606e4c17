"""`python -m tests.fuzz [COUNT] [SEED]`: random mutations of calls, through every dialect and the ladder.

Each text is read whole and in random pieces: no exception, the same result, a legal row of events,
and nothing said at a prefix that the whole does not say. Arguments go through the ladder: healing
never raises, and what it returns is an object. Prints how many were run; exits 1 at the first fault.
"""

import random
import sys
import time
import tracemalloc

from tests.dialects.cases import OWN, load
from tests.properties.grammar import check, is_beginning, joined

from toolbridge import dialects
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import dumps
from toolbridge.dialects.reader import TextReader
from toolbridge.healing import heal

MARKS = "<>{}[]()\"'`:,=\\/|\n \t⟦⟧｜é🎌\ud83c"


def mutate(text: str, dice: random.Random) -> str:
    for _ in range(dice.randint(1, 4)):
        at, length = dice.randint(0, len(text)), dice.randint(0, 8)
        match dice.randint(0, 5):
            case 0:
                text = text[:at] + text[at + length :]
            case 1:
                text = text[:at] + dice.choice(MARKS) * dice.randint(1, 3) + text[at:]
            case 2:
                text = text[:at]
            case 3:
                text = text[:at] + text[max(0, at - 20) : at] + text[at:]
            case 4:
                other = dice.randint(0, len(text))
                text = text[:at] + text[other : other + length] + text[at:]
            case _:
                text = text[at:] + text[:at]
    return text


def pieces(text: str, dice: random.Random) -> list[str]:
    cut, found = 0, []
    while cut < len(text):
        size = dice.choice((1, 1, 2, 3, 7, 20))
        found.append(text[cut : cut + size])
        cut += size
    return found


def read(name: str, tools: list[dict], cut: list[str]) -> tuple[list[Event], list[Event]]:
    """Return what is said to the pieces, and what the end adds."""
    reader = TextReader(tools, dialect=name, ids=Ids("fuzz"))
    said = [event for piece in cut for event in reader.feed(piece)]
    return said, reader.close()


def one(name: str, text: str, tools: list[dict], dice: random.Random) -> None:
    said, end = read(name, tools, [text] if text else [])
    whole = joined(said + end)
    check(whole)
    said, end = read(name, tools, pieces(text, dice))
    assert joined(said + end) == whole, "a cut changed the result"
    assert is_beginning(joined(said), whole), "something was taken back"


def heal_one(text: str, schema: dict | None) -> None:
    healing = heal(text, schema)
    assert isinstance(healing.value, dict)
    dumps(healing.value)


def main(count: int, seed: int) -> int:
    dice = random.Random(seed)
    names = ["auto", *dialects.names()]
    cases = load(OWN)
    tracemalloc.start()
    start = time.monotonic()
    for done in range(count):
        case = dice.choice(cases)
        text = mutate(case["input"], dice)
        name = case["dialect"] if dice.random() < 0.6 else dice.choice(names)
        name = name if name in names else "auto"
        tools = case["tools"]
        try:
            one(name, text, tools, dice)
            schema = tools[0]["parameters"] if tools else None
            heal_one(text[text.find("{") :], schema)
        except Exception as error:
            print(f"{done}: {name} {text!r}: {error!r}")
            raise
        if (done + 1) % 10_000 == 0:
            size, peak = tracemalloc.get_traced_memory()
            print(
                f"{done + 1} in {time.monotonic() - start:.0f} s, {size >> 20} MB, peak {peak >> 20} MB",
                flush=True,
            )
    print(f"{count} passed, 0 failed")
    return 0


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(given + [100_000, 1][len(given) :])))
