from toolbridge.codecs.anthropic.known_messages import (
    NONE_KNOWN,
    KnownMessages,
    MessageMemo,
    messages_start,
)
from toolbridge.core.messages import Turn

TURNS = (Turn("user", ()),)


def known(text, size=400):
    return KnownMessages((text * size)[:size].encode(), TURNS)


def test_messages_are_found_by_all_of_their_bytes():
    memo = MessageMemo()
    first = known("a")
    memo.keep(first, NONE_KNOWN)
    assert memo.find(b"[" + first.json + b",more", 1) is first
    assert memo.find(first.json[:-1] + b"b", 0) is NONE_KNOWN
    assert memo.find(b"", 0) is NONE_KNOWN


def test_conversations_that_begin_alike_are_kept_side_by_side():
    memo = MessageMemo()
    alike = [KnownMessages(b"a" * 300 + b"%d" % number, TURNS) for number in range(9)]
    for one in alike:
        memo.keep(one, NONE_KNOWN)
    assert [memo.find(one.json, 0) is one for one in alike] == [False, *[True] * 8]
    longer = KnownMessages(alike[8].json + b",8", TURNS)
    memo.keep(longer, alike[8])
    assert memo.find(longer.json, 0) is longer
    assert memo.find(alike[8].json, 0) is NONE_KNOWN


def test_a_memo_keeps_no_more_bytes_than_it_may():
    memo = MessageMemo(1000)
    every = [known(f"{number}|") for number in range(50)]
    for one in every:
        memo.keep(one, NONE_KNOWN)
    assert [number for number, one in enumerate(every) if memo.find(one.json, 0).turns] == [48, 49]
    memo.keep(known("x", 2000), NONE_KNOWN)
    assert memo._size == 0


def test_the_start_of_messages_is_found():
    assert messages_start(b'{"messages" : [ {"role"') == 16
    assert messages_start(b'{"messages":{}') == 0
    assert messages_start(b"{}") == 0
