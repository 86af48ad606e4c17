"""Expressions with possessive groups match as they are written, on every Python.

Up to Python 3.11.4, such a group takes what its last, failed try has read (python/cpython#106052).
"""

import random
import re

from tests.tables import every_row

from toolbridge.server import http_reader
from toolbridge.structured import document_text, quoting
from toolbridge.wire import json_stream

_POSSESSIVE = re.compile(r"\)([*+])\+")
TEXTS = ("a", "é", " ", '"', "\\", "\\u", "\\uD", "\\u001f", "\\ud83d", "\\n", "\x01", "\ud800")


@every_row(
    ("pattern", "pieces"),
    [
        (json_stream._RUN, TEXTS),
        (document_text._UNITS, TEXTS),
        (quoting._LEAD, ("-", "1", "12", ".", ")", " ", "* ", "x")),
        (http_reader._BLANK, (b"\r", b"\n", b"\r\n", b"x")),
    ],
)
def test_a_group_ends_where_the_plain_one_does(pattern, pieces):
    written = pattern.pattern
    source = written.decode() if isinstance(written, bytes) else written
    plain = _POSSESSIVE.sub(r")\1", source)
    expected = re.compile(plain.encode() if isinstance(written, bytes) else plain)
    draw = random.Random(1)
    for _ in range(3000):
        text = pieces[0][:0].join(draw.choice(pieces) for _ in range(draw.randint(1, 6)))
        ends = [found.end() if (found := p.match(text)) else None for p in (pattern, expected)]
        assert ends[0] == ends[1], text
