"""What an answer has used where the provider does not report all of it."""

from tests.tables import every_row

from toolbridge.accounting.spent import spent
from toolbridge.core.messages import Message, Problem, Text
from toolbridge.core.usage import Usage

WORDS = (Text("x" * 40),)


ROWS = {
    "all is reported": (Message(content=WORDS, stop="end", usage=Usage(100, 7)), Usage(100, 7)),
    "nothing is reported": (Message(content=WORDS, stop="end"), Usage(50, 10)),
    "only the prompt is reported": (
        Message(content=WORDS, stop="end", usage=Usage(100)),
        Usage(100, 10),
    ),
    "an embedding has no output": (Message(stop="end", usage=Usage(100)), Usage(100)),
    "it broke off": (Message(content=WORDS, stop="error", usage=Usage(100, 1)), Usage(100, 10)),
    "it failed at once": (Message(stop="error", problem=Problem("overloaded", "no")), Usage()),
}


@every_row(("message", "usage"), ROWS.values(), ids=list(ROWS))
def test_missing_tokens_are_estimated(message, usage):
    assert spent(message, 50) == (usage, usage.output == 10)
