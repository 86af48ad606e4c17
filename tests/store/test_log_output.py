"""The log never waits for its reader, and says what it had to drop."""

import os
import re
import socket

import pytest

from toolbridge.store.log_output import MOST_WAITING, LogOutput


@pytest.fixture
def pipe():
    read, write = os.pipe()
    out = os.fdopen(write, "w")
    yield read, out
    out.close()
    os.close(read)


def drain(read: int) -> str:
    os.set_blocking(read, False)
    found = b""
    try:
        while piece := os.read(read, 65536):
            found += piece
    except BlockingIOError:
        pass
    return found.decode()


def test_lines_are_written_at_once_where_there_is_room(pipe):
    read, out = pipe
    output = LogOutput(out)
    output.write("one é\n")
    output.write("two \ud800\n")
    assert drain(read) == "one é\ntwo \\ud800\n"


def test_added_lines_are_one_write_before_any_other_line(pipe):
    read, out = pipe
    output = LogOutput(out)
    output.write_bytes(b"one\n", later=True)
    output.write_bytes(b"two\n", later=True)
    assert drain(read) == ""
    output.write("notice\n")
    assert drain(read) == "one\ntwo\nnotice\n"
    output.write_bytes(b"three\n", later=True)
    output.flush()
    assert drain(read) == "three\n"
    output.write_bytes(b"four\n", later=True)
    out.close()
    output.flush()
    assert drain(read) == "", "the number of the closed file may belong to another one"


def test_added_lines_are_written_when_they_are_many(pipe):
    read, out = pipe
    output = LogOutput(out)
    for number in range(1000):
        output.write_bytes(b"%099d\n" % number, later=True)
    got = drain(read)
    assert len(got) > 32_768
    output.flush()
    assert list(map(int, (got + drain(read)).split())) == list(range(1000))


def test_each_write_has_whole_lines():
    # Workers share a pipe. A socket for datagrams shows what is one write.
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with reader, os.fdopen(writer.detach(), "w") as out:
        output = LogOutput(out)
        line = b"x" * 1500 + b"\n"
        for _ in range(5):
            output.write_bytes(line, later=True)
        output.flush()
        sizes = [len(reader.recv(65_536)) for _ in range(3)]
    assert sizes == [2 * len(line), 2 * len(line), len(line)]


def test_lines_wait_for_a_reader_and_then_are_dropped_and_counted(pipe):
    read, out = pipe
    output = LogOutput(out)
    line = "x" * 99
    for number in range(10_000):
        output.write(f"{number:05}{line}\n")
    got = drain(read)
    for _ in range(MOST_WAITING // 4096):
        output.write("later\n")
        got += drain(read)
    lines = got.splitlines()
    numbers = [int(text[:5]) for text in lines if text.endswith(line)]
    assert numbers == list(range(len(numbers)))
    (said,) = [text for text in lines if text.startswith("toolbridge:")]
    dropped = int(re.search(r"(\d+) lines were dropped", said)[1])
    assert len(numbers) + lines.count("later") + dropped == 10_000 + MOST_WAITING // 4096
    assert MOST_WAITING <= len(numbers) * (len(line) + 6) + 4096 < MOST_WAITING + (1 << 20)


def test_a_reader_who_leaves_and_a_closed_file_are_ignored():
    read, write = os.pipe()
    with os.fdopen(write, "w") as out:
        output = LogOutput(out)
        os.close(read)
        output.write("gone\n")
    output.write("closed\n")
